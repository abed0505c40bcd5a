// A limit that verify(plan, model) and the planner's search space share.
#pragma once

#include <cstdint>

namespace meshwright::compiler {

// Most micro-batches of a step. Every micro-batch is a task of every stage, in the Program and in
// the simulation, so more of them would take too much memory and time.
constexpr std::int64_t most_micro_batches = 16384;

}  // namespace meshwright::compiler
