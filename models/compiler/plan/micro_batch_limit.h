// A limit that broken_rule() and the planner's search space share.
#pragma once

#include <cstdint>

namespace meshwright::compiler {

// The most micro-batches of a step. Every micro-batch adds tasks to every stage of the Program and
// of the simulation, so more of them would take too much memory and time.
constexpr std::int64_t most_micro_batches = 16384;

}  // namespace meshwright::compiler
