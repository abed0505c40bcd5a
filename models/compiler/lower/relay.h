// What a virtual stage makes and a later one than the next needs is passed on by those between, as
// every block of a decoder needs what the encoder made.
#pragma once

#include <optional>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// The partitioned graph in which all activations flow to the same or the next virtual stage, and
// gradients to the same or the one before: each stage between copies what came from its
// neighbour to where its messages leave (a `scale` by 1), and nodes read the one that comes to
// them.
// None: it is so already.
std::optional<Graph> relay(const Graph& graph, const Plan& plan);

}  // namespace meshwright
