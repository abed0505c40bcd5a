// The first micro-batch's gradients overwrite what the last step has left.
#pragma once

#include "models/program/program.h"

namespace meshwright {

// Lets every instruction that is the first of a step to add to a gradient write it instead, if it
// can (Instruction::overwrites), so that only the rest is cleared. Expects a Program whose
// step_begin clears all gradients.
void overwrite_first_sums(Program& program);

}  // namespace meshwright
