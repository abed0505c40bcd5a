// What a graph computes, node by node.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "exec/backends/backend.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// What the step reads from a graph. Numbers of 16 bits as fp32.
struct GraphValues {
  std::vector<float> losses;             // of the targets; then balancing losses, sorted
  std::vector<std::vector<float>> sums;  // of parameter gradients, in the order of the parameters
  // Between a logit for which an expert was chosen and the next one, over the row's largest; the
  // least of all routers.
  double closest_choice = std::numeric_limits<double>::infinity();
};

// Runs the nodes in order, each tensor in memory of its own unless it is said to share another's.
// Inputs and parameters follow from the seed, gradients begin with it; all other memory holds NaN
// until an operation writes it. Collectives of one rank are copies. A neighbour above 0 has other
// last bits, in the graph's precision, of some of the parameters. std::logic_error where a node
// writes into an input or a parameter, or a tensor does not fit into that whose memory it shares.
GraphValues values_of(const Graph& graph, std::uint64_t seed, Backend& backend, int neighbour = 0);

}  // namespace meshwright
