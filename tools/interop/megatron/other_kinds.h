// Rejects arguments for models, and for ways to train them, that meshwright does not have.
#pragma once

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Throws InputError for a setting that makes another model than those which the rules build, or
// that trains it in another way. The rule of the model calls it.
void refuse_other_kinds(Settings& from);

}  // namespace meshwright::interop
