// The first micro-batch's gradients overwrite what the last step has left.
#pragma once

#include "models/program/program.h"

namespace meshwright {

// Of a Program whose step_begin clears all gradients: says of every instruction that is the first
// of a step to add to a gradient, and can write it instead, that it does so
// (Instruction::overwrites), and clears the rest only.
void overwrite_first_sums(Program& program);

}  // namespace meshwright
