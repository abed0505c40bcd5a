// What passes that fuse operations share: from nodes of a graph to one node with a body.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/program/graph/fusion.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// The node that does what `members` do, in their order. `uses`: how often each tensor is read
// (count_uses); one that members alone read exists inside only. Tensors keep their numbers. Every
// member has a row rule. block_rows is not set yet.
struct Fused {
  Node node;
  Fusion fusion;
};
// Nothing where it would have more operands than a node can have.
std::optional<Fused> fuse(const Graph& graph, std::span<const Node* const> members,
                          const std::vector<int>& uses);

// Steps use `by` in place of an internal operand, which is dropped.
void replace_internal(Fusion& fusion, int operand, int by);

// Of a body whose first step is a product: whether the others can be its epilogue. The product then
// writes to an operand of the node; a sum with another operand is part of the product.
bool lead_with_product(Fusion& fusion);

}  // namespace meshwright
