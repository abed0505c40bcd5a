// What frameworks on PyTorch's own parallelism have in common: torchtitan, DeepSpeed, accelerate.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "models/compiler/frameworks/framework.h"

namespace meshwright {

// The keys that only the engine's own schedules, layouts and memory have.
std::span<const Limit> pytorch_limits();
// One list after the other.
std::vector<Limit> joined(std::initializer_list<std::span<const Limit>> lists);

// What says nothing in this plan gets its default, and what those frameworks never do is turned
// off.
void settle_as_pytorch(Plan& plan, const Model& model);

// Ranks that gradients are summed over.
inline int replicas_of(const Plan& plan) {
  return plan.parallelism.data * plan.parallelism.context;
}

}  // namespace meshwright
