// Refuses arguments of models and of ways to train them that meshwright does not have.
#pragma once

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Throws InputError for a setting that makes another model, or another training of it, which no
// rule of Megatron-LM's builds. The rule of the model calls it.
void refuse_other_kinds(Settings& from);

}  // namespace meshwright::interop
