// Functions for passes that remove or replace nodes. The last one is a pass itself, which removes
// nodes that nothing needs.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Updates the producers of tensors after nodes have moved, and drops activations that no node
// mentions.
Graph cleaned(Graph graph);

// Leaves out the nodes whose indices are marked in `dropped`. Nothing may read their outputs.
Graph without(const std::vector<char>& dropped, Graph graph);

// Returns how often each tensor is used: read by nodes, read by the step if it is a loss, or
// overwritten through `alias_of`.
std::vector<int> count_uses(const Graph& graph);

// Returns the loss that a node makes to balance experts, or -1 if it makes none. It is the third
// output of a router, or its sum over the tensor group if each rank routes its own tokens.
int balancing_loss(const Graph& graph, const Node& node);

// Returns whether the step reads the tensor besides the graph's nodes, because it is a loss.
bool is_loss(const Graph& graph, int tensor);

// Gives every tensor memory of its own, except for the gradients of losses. Passes need this if
// they move nodes or read a tensor later than it was read.
Graph without_reuse(Graph graph);

// Removes nodes from which neither a loss nor a parameter's gradient comes. This is the pass.
Graph remove_dead_code(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
