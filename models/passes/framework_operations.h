// What an eager framework runs: modules as the elementary operations that Hugging Face's PyTorch
// code is written in, each one kernel that reads and writes memory and has a gradient of its own.
#pragma once

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

// Replaces gelu's tanh form, swiglu, rms_norm, rope, unfused attention and cross_entropy. Stay
// whole: what is one kernel in PyTorch too (layer_norm, gelu's erf form, attention by a library)
// and what the ranks of a tensor group compute together.
Graph framework_operations(Graph graph, const Plan& plan);

}  // namespace meshwright
