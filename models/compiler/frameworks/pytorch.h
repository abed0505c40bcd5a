// torchtitan, DeepSpeed and accelerate run on PyTorch's own parallelism. They share these limits
// and defaults.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "models/compiler/frameworks/framework.h"

namespace meshwright::compiler {

// Returns limits on keys whose values only meshwright's own engine has: for example schedules,
// layouts and ways to save memory.
std::span<const Limit> pytorch_limits();
// Returns one list of the limits of all `lists`, in order.
std::vector<Limit> joined(std::initializer_list<std::span<const Limit>> lists);

// Sets keys that have no effect in this plan to their defaults, and turns off what these frameworks
// never do.
void settle_as_pytorch(Plan& plan, const Model& model);

// Returns the number of ranks that gradients are summed over.
inline int replicas_of(const Plan& plan) {
  return plan.parallelism.data * plan.parallelism.context;
}

}  // namespace meshwright::compiler
