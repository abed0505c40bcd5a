// Finds settings with which a run trains differently from the job that is made of it: other
// parameters, other optimizers, states on the host.
#pragma once

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Adds a note for each such setting if the plan is still a good approximation, and throws
// InputError for the others and for programs that generate text. Targets call it when they
// translate the names of settings, before the rules are applied.
void check_other_steps(Settings& settings);

}  // namespace meshwright::interop
