// Keys that a framework decides by other choices of a plan.
#pragma once

#include <string_view>

#include "models/compiler/frameworks/framework.h"

namespace meshwright {

// training.gradient_reduce_precision: accelerate reduces gradients in the type of the weights with
// FSDP, in fp32 with DDP.
bool follows_other_keys(std::string_view key);

// The plan with those keys as the framework has them there. For the planner, which tries the other
// choices; a plan that somebody wrote keeps its own (check_expressible() refuses it).
Plan with_what_follows(Framework framework, Plan plan, const Model& model);

}  // namespace meshwright
