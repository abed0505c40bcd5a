// The limits and defaults that frameworks on PyTorch share: torchtitan, DeepSpeed, accelerate and
// plain PyTorch.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "models/compiler/frameworks/framework.h"

namespace meshwright::compiler {

// Returns limits on keys with values that only other engines have: for example schedules, layouts
// and ways to save memory.
std::span<const Limit> pytorch_limits();
// Returns one list of the limits of all `lists`, in order.
std::vector<Limit> joined(std::initializer_list<std::span<const Limit>> lists);

// Sets keys that have no effect in this plan to their defaults, and turns off what these frameworks
// never do.
void settle_as_pytorch(Plan& plan, const Model& model);

// Returns the number of ranks over which gradients are summed, apart from those of experts.
inline int replicas_of(const Plan& plan) {
  return plan.parallelism.data * plan.parallelism.context;
}

}  // namespace meshwright::compiler
