// Finds or assigns the memory of the tensors that a stage's instructions read and write.
#pragma once

#include "models/program/program.h"

namespace meshwright::compiler {

struct StageDraft;

// Returns the operand of a tensor that has memory already: an activation that was made or received,
// an input that was loaded, a parameter or its gradient. For a parameter of a sharded unit, it is
// in the buffer into which the unit was gathered.
Operand operand(const StageDraft& draft, int tensor, int virtual_stage);

// Assigns memory to an activation that is about to be made: that of the tensor that it overwrites,
// or a buffer in the region that says how long it is kept. Returns its operand.
Operand place_output(StageDraft& draft, int tensor, int virtual_stage);

}  // namespace meshwright::compiler
