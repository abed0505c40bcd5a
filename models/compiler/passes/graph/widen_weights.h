// Stores frozen weights of linear layers in blocks in 4 bits (training.lora.base_weights).
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Gives the weights that only linear layers of blocks read their type in 4 bits. Directly before
// each node that multiplies by one, in the forward pass, in recomputed operations and in the
// backward pass, a node widens the weight, and nothing saves the result. bitsandbytes and peft work
// in the same way. Throws InputError if the rows of a weight are not whole groups of int4.
//
// Runs after the passes that fuse and order nodes, so that a widened weight is used at once.
Graph widen_weights(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
