// Finds where every tensor of the graph is made and used once the chain of units is partitioned
// into virtual stages. The result says which tensors must be sent, and which must be kept from one
// task of a micro-batch to a later one.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"
#include "models/program/program.h"

namespace meshwright::compiler {

struct TensorFlow {
  // The virtual stage that makes it, or -1 for tensors that are not activations.
  int maker = -1;
  Body::Kind made_in = Body::Kind::forward;  // forward, backward or weights
  bool kept = false;              // needed in a later body of the maker than the one it is made in
  bool crosses_forward = false;   // used by the next virtual stage, in any of its bodies
  bool kept_by_next = false;      // the next virtual stage uses it after its forward body
  bool crosses_backward = false;  // made in a backward body, used by the virtual stage before
  bool kept_by_previous = false;  // the virtual stage before uses it in its weights body
  bool made_in_backward() const { return made_in != Body::Kind::forward; }
  bool crosses(bool backward) const { return backward ? crosses_backward : crosses_forward; }
};

struct Boundaries {
  std::vector<TensorFlow> tensors;
  std::vector<std::vector<int>> nodes;  // per virtual stage: its nodes in graph order
  std::vector<Body::Kind> body;         // per node: forward, backward or weights
  std::vector<std::vector<int>> users;  // per parameter: the virtual stages that read it, ascending
  // Per tensor: the output of the in-place all-reduce that reads it, or -1.
  std::vector<int> reduced_into;
};

Boundaries find_boundaries(const Graph& graph, const Plan& plan);

// Returns the units whose nodes a virtual stage runs in bodies of kind `body`, in the order of the
// nodes. A unit is listed again if its nodes continue after those of another unit.
std::vector<int> units_in_order(const Graph& graph, const Boundaries& boundaries, int virtual_stage,
                                Body::Kind body);

}  // namespace meshwright::compiler
