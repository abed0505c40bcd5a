// If a virtual stage makes a tensor that a later one than the next needs, the stages between pass
// it on. For example, every block of a decoder needs what the encoder made.
#pragma once

#include <optional>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the partitioned graph in which all activations flow to the same or the next virtual
// stage, and gradients to the same or the previous one. Each stage between copies a tensor that
// came from its neighbour to the memory from which it sends (a `scale` by 1). Nodes read the copy
// that comes to their stage. Returns nothing if the graph needs no change.
std::optional<Graph> relay(const Graph& graph, const Plan& plan);

}  // namespace meshwright::compiler
