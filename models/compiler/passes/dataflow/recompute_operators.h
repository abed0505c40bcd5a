// Recomputes by operation, as torchtitan does if its configuration says selective with the option
// `op` (torchtitan/distributed/activation_checkpoint.py). A block saves the results of attention,
// of sums over the tensor group, and of every second matmul, beginning with the first. The backward
// pass recomputes everything else.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns whether the training recomputes by operation. It does if `selective` is set for the
// framework torchtitan. For all others, `selective` means attention's score matrix (recompute.h),
// as in Megatron-LM.
bool recomputes_by_operation(const Training& training);

// Returns the graph with repeated nodes. It must be differentiated and repeat nothing yet. Tensors
// that cross from unit to unit stay saved, and so do those of units other than blocks.
Graph recompute_operators(const Graph& graph);

}  // namespace meshwright::compiler
