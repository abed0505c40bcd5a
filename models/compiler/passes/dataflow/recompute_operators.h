// Recomputes by operation, as torchtitan does where its configuration says selective with the
// option `op` (torchtitan/distributed/activation_checkpoint.py): a block saves the results of
// attention, of sums over ranks, and of every other matrix product, and the backward pass computes
// everything else again.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns whether the plan recomputes so: `selective` is this for torchtitan. Elsewhere it is
// attention's score matrix (recompute.h), as Megatron-LM means it.
bool recomputes_by_operation(const Training& training);

// Expects a differentiated graph that repeats nothing yet. Tensors that cross from unit to unit,
// and those of units other than blocks, stay saved.
Graph recompute_operators(const Graph& graph);

}  // namespace meshwright::compiler
