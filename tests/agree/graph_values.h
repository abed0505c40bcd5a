// Runs a graph node by node and returns what it computes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "exec/backends/backend.h"
#include "models/program/graph/graph.h"

namespace meshwright::tests {

// The results of a graph that a training step reads. Values of 16 bits are widened to fp32.
struct GraphValues {
  std::vector<float> losses;             // of the targets; then balancing losses, sorted
  std::vector<std::vector<float>> sums;  // of parameter gradients, in the order of the parameters
  // The least gap, over all routers and rows, between the least logit of a chosen expert and the
  // largest one of another expert, relative to the row's largest logit.
  double closest_choice = std::numeric_limits<double>::infinity();
};

// Runs the nodes in order, each tensor in memory of its own unless it is an alias. Inputs and
// parameters follow from the seed, and so do the gradients' first values. All other memory holds
// NaN until an operation writes it. Collectives of one rank are copies. If `neighbour` is above 0,
// some of the parameters have other last bits, in the graph's precision. Throws std::logic_error if
// a node writes into an input or a parameter, or if a tensor does not fit into the memory that it
// shares.
GraphValues values_of(const Graph& graph, std::uint64_t seed, Backend& backend, int neighbour = 0);

}  // namespace meshwright::tests
