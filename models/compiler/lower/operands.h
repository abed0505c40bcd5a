// Finds or assigns the memory of the tensors that a stage's instructions read and write.
#pragma once

#include "models/program/program.h"

namespace meshwright {

struct StageDraft;

// Returns the operand of a tensor that has its place: an activation that was made or received, an
// input that was loaded, a parameter or its gradient (of a sharded unit, one that has been
// gathered).
Operand operand(const StageDraft& draft, int tensor, int virtual_stage);

// Gives an activation that is about to be made its place: the one of the tensor whose memory it
// takes, or a buffer in the region that says how long it is kept.
Operand place_output(StageDraft& draft, int tensor, int virtual_stage);

}  // namespace meshwright
