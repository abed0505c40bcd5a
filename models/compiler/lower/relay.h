// Lets virtual stages pass tensors on that a later stage than the next one needs. For example,
// every block of a decoder needs the output of the encoder.
#pragma once

#include <optional>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the partitioned graph in which all activations flow to the same or the next virtual
// stage, and gradients to the same or the previous one. Each stage between copies a tensor that
// came from its neighbour to the memory from which it sends (a `scale` by 1). Nodes read the copy
// that comes to their stage. If stages have several chunks, a stage also copies a tensor of its own
// that it both sends and saves for the backward. Returns nothing if the graph needs no change.
std::optional<Graph> relay(const Graph& graph, const Plan& plan);

}  // namespace meshwright::compiler
