// Passes that fuse operations share these functions, which turn nodes of a graph into one node with
// a body.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/program/graph/fusion.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Holds a node that does what `members` of fuse() do, in their order. `uses` says how often each
// tensor is read (count_uses). A tensor that only members read exists only inside the node. Tensors
// keep their numbers. Every member must have a row rule. block_rows is not set yet.
struct Fused {
  Node node;
  Fusion fusion;
};
// Returns the node that does what `members` do. Returns nothing if it would have more operands than
// a node can have.
std::optional<Fused> fuse(const Graph& graph, std::span<const Node* const> members,
                          const std::vector<int>& uses);

// Makes steps use operand `by` instead of the internal operand `operand`, which is dropped.
void replace_internal(Fusion& fusion, int operand, int by);

// Returns whether the other steps of a body can be the epilogue of its first step, a matmul. If
// they can, the matmul writes to an operand of the node, and a sum with another operand becomes
// part of it.
bool lead_with_product(Fusion& fusion);

}  // namespace meshwright::compiler
