// Functions that turn several nodes of a graph into one node with a body. The passes that fuse
// operations share them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/program/graph/fusion.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// The node that fuse() makes, and its body. block_rows of the body is not set yet.
struct Fused {
  Node node;
  Fusion fusion;
};
// Returns a node that does what `members` do, in their order. Every member must have a row rule
// (OpInfo::rows). `uses` says how often each tensor is read (count_uses()). A tensor that only
// members read exists only inside the node. Returns nothing if the node would have more than 8
// inputs or 8 outputs, or if members need the same tensor both whole and by rows.
std::optional<Fused> fuse(const Graph& graph, std::span<const Node* const> members,
                          const std::vector<int>& uses);

// Makes the steps use operand `by` in place of the internal operand `operand`, and removes the
// latter.
void replace_internal(Fusion& fusion, int operand, int by);

// Makes the first step, a matmul, run on all rows at once, with the other steps as its epilogue
// (Fusion::Loop::product_first). The matmul must write to an output of the node. If nobody outside
// reads its result, a following sum becomes part of the matmul, or the matmul takes the place of an
// output that is written later. Returns false if neither is possible.
bool lead_with_product(Fusion& fusion);

}  // namespace meshwright::compiler
