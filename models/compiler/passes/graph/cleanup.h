// What passes that remove or replace nodes share, and the pass that removes what nobody needs.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// Numbers the producers again after nodes have moved, and drops activations that no node mentions.
Graph cleaned(Graph graph);

// Leaves out the nodes whose places are marked in `dropped`. Nobody may read what they make.
Graph without(const std::vector<char>& dropped, Graph graph);

// How often nodes read each tensor; the step reads the losses.
std::vector<int> count_uses(const Graph& graph);

// Whether the step reads the tensor beside the graph's nodes: a loss.
bool is_loss(const Graph& graph, int tensor);

// Every tensor in memory of its own, but for the gradients of losses: for passes that move nodes or
// read a tensor later than it was read.
Graph without_reuse(Graph graph);

// The pass: nodes from which neither a loss nor a parameter's gradient comes.
Graph remove_dead_code(Graph graph, const Plan& plan);

}  // namespace meshwright
