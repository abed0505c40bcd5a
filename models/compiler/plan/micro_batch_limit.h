// The rule verify(plan, model) and the planner's space share.
#pragma once

#include <cstdint>

namespace meshwright {

// Every micro-batch is a task of every stage, in the Program and in the simulation.
constexpr std::int64_t most_micro_batches = 16384;

}  // namespace meshwright
