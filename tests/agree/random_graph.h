// Makes random graphs, like those that importers and the split passes build for groups of one rank.
// Tests of passes use them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::tests {

// Draws random choices that depend only on the seed, on every machine.
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

}  // namespace meshwright::tests
