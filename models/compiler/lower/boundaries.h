// Finds where every tensor of the graph is made and used once the chain of units is partitioned
// into virtual stages. This says what must be sent, and what must be kept from one task of a
// micro-batch to a later one.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"
#include "models/program/program.h"

namespace meshwright {

struct TensorFlow {
  int maker = -1;                            // virtual stage; -1: input, parameter, gradient
  Body::Kind made_in = Body::Kind::forward;  // forward, backward or weights
  bool kept = false;              // used in a later body of the maker than the one it is made in
  bool crosses_forward = false;   // used by the next virtual stage (its forward or backward body)
  bool kept_by_next = false;      // the next virtual stage uses it in its backward body
  bool crosses_backward = false;  // made in a backward body, used by the virtual stage before
  bool kept_by_previous = false;  // the virtual stage before uses it in its weights body
  bool made_in_backward() const { return made_in != Body::Kind::forward; }
  bool crosses(bool backward) const { return backward ? crosses_backward : crosses_forward; }
};

struct Boundaries {
  std::vector<TensorFlow> tensors;
  std::vector<std::vector<int>> nodes;  // per virtual stage: its nodes in graph order
  std::vector<Body::Kind> body;         // per node: forward, backward or weights
  std::vector<std::vector<int>> users;  // per parameter: the virtual stages that use it, ascending
  std::vector<int> reduced_into;        // per tensor: what an in-place all-reduce makes of it, -1
};

Boundaries find_boundaries(const Graph& graph, const Plan& plan);

// Returns the units of a virtual stage's nodes of such a body in list order, each once per run.
std::vector<int> units_in_order(const Graph& graph, const Boundaries& boundaries, int virtual_stage,
                                Body::Kind body);

}  // namespace meshwright
