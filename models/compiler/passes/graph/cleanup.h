// Functions for passes that remove or replace nodes. The last one is a pass itself, which removes
// nodes that nothing needs.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Updates the producers of tensors after nodes have moved, drops activations that no node mentions,
// and numbers the remaining tensors anew.
Graph cleaned(Graph graph);

// Removes the nodes whose indices are marked in `dropped`. No other node may read their outputs.
Graph without(const std::vector<char>& dropped, Graph graph);

// Returns how often each tensor is used: read by nodes, read by the step because it is a loss, or
// overwritten through `alias_of`.
std::vector<int> count_uses(const Graph& graph);

// Returns the loss that a node makes to balance experts, or -1 if it makes none. It is the third
// output of a router, or its sum over the tensor group if each rank routes its own tokens.
int balancing_loss(const Graph& graph, const Node& node);

// Returns whether the tensor is a loss, which the step reads in addition to the graph's nodes.
bool is_loss(const Graph& graph, int tensor);

// Gives every tensor memory of its own, except for the gradients with which the backward of a loss
// begins. Passes need this if they move nodes or read a tensor later than it was read.
Graph without_reuse(Graph graph);

// Removes nodes that no loss and no gradient of a parameter depends on. This function is the pass.
Graph remove_dead_code(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
