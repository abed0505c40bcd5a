// The keys of a plan that a framework sets by itself, from other choices of the plan.
#pragma once

#include <string_view>

#include "models/compiler/frameworks/framework.h"

namespace meshwright::compiler {

// Returns whether frameworks set this key from other choices. Only
// training.gradient_reduce_precision is such a key: for example, accelerate reduces gradients in
// the type of the weights with FSDP and in fp32 with DDP.
bool follows_other_keys(std::string_view key);

// Returns the plan with such keys as the framework sets them. The planner calls it for the plans
// that it tries. In a plan that a user wrote, such keys stay, and check_expressible() rejects other
// values than the framework's.
Plan with_what_follows(Framework framework, Plan plan, const Model& model);

}  // namespace meshwright::compiler
