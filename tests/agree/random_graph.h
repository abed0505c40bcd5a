// Random graphs as importers and the split passes would build them for groups of one rank, and what
// a graph computes: for tests of passes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "exec/backends/backend.h"
#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

// Choices that follow from a seed, the same on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  int below(int end) { return static_cast<int>(random_() % static_cast<std::uint64_t>(end)); }
  int between(int first, int last) { return first + below(last - first + 1); }
  bool one_in(int many) { return below(many) == 0; }
  template <typename T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }

 private:
  std::mt19937_64 random_;  // whose numbers the standard fixes
};

struct RandomGraph {
  Graph forward;
  Plan plan;  // its kind of recomputation is drawn too
};
RandomGraph random_graph(std::uint64_t seed);

// What the step reads from a graph. Numbers of 16 bits as fp32.
struct GraphValues {
  std::vector<float> losses;             // of the targets; then balancing losses, sorted
  std::vector<std::vector<float>> sums;  // of parameter gradients, in the order of the parameters
};

// Runs the nodes in order, each tensor in memory of its own unless it is said to share another's.
// Inputs and parameters follow from the seed, gradients begin with it; all other memory holds NaN
// until an operation writes it. Collectives of one rank are copies. std::logic_error where a node
// writes into an input or a parameter, or a tensor does not fit into that whose memory it shares.
GraphValues values_of(const Graph& graph, std::uint64_t seed, Backend& backend);

}  // namespace meshwright
