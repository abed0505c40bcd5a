// Finds or assigns the memory of the tensors that a stage's instructions read and write.
#pragma once

#include "models/program/program.h"

namespace meshwright::compiler {

struct StageDraft;

// Returns the operand of a tensor that has memory already: an activation that was made or received,
// an input that was loaded, a parameter or its gradient. If weights are gathered, or gradients
// reduced, unit by unit, the operand is in the unit's buffer.
Operand operand(const StageDraft& draft, int tensor, int virtual_stage);

// Assigns memory to a tensor that is about to be made: that of the tensor that it overwrites, or a
// buffer in a region that lasts as long as the tensor is needed. Returns its operand.
Operand place_output(StageDraft& draft, int tensor, int virtual_stage);

}  // namespace meshwright::compiler
