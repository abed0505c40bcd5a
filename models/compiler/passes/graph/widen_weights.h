// Stores frozen weights in 4 bits (training.lora.base_weights): those of linear layers in blocks.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Gives the weights their type in 4 bits. Directly before each node that multiplies by one, in the
// forward pass, in what is recomputed and in the backward pass, a node widens the weight, and
// nothing keeps the result. bitsandbytes and peft work in the same way. Throws InputError if the
// rows of a weight are not whole groups of int4.
//
// Runs after the passes that fuse and order nodes, because to these a weight is no work.
Graph widen_weights(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
