// Makes the first micro-batch's gradients overwrite those of the last step.
#pragma once

#include "models/program/program.h"

namespace meshwright::compiler {

// Makes every instruction that is the first of a step to add to a gradient overwrite the gradient
// instead (Instruction::overwrites), if all micro-batches run it and its operation can. Then only
// the other gradients are cleared. Expects a Program whose step_begin clears all gradients.
void overwrite_first_sums(Program& program);

}  // namespace meshwright::compiler
