// Differentiates the graph: appends, for the forward nodes from last to first, the nodes that
// compute their gradients. Every trainable parameter gets a gradient tensor that its gradient nodes
// add to, in the type in which gradients are summed.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph backward(Graph graph, const Plan& plan);

// Returns the number of targets of the global batch, by which the mean loss divides.
std::int64_t targets_per_step(const Graph& graph, const Plan& plan);

}  // namespace meshwright::compiler
