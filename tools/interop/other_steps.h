// Finds settings by which a file trains in another way than the job that is made of it: on other
// parameters, with other optimizers, with states on the host.
#pragma once

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Adds a note for each such setting that leaves the plan near to the truth, and throws InputError
// for the others. The targets that read settings of transformers' Trainer or of DeepSpeed call it
// before their rules.
void check_other_steps(Settings& settings);

}  // namespace meshwright::interop
