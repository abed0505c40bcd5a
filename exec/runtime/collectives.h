// Runs collective instructions on the communicator of their group.
#pragma once

#include "exec/runtime/rank_context.h"

namespace meshwright::exec {

// Runs a collective of a task's body. Every member of the group calls it. Throws RunError.
void run_collective(const RankContext& rank, const Instruction& instruction, const Task& task);

}  // namespace meshwright::exec
