// Finds the matmul that makes the logits of a loss.
#pragma once

#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the index of the node that makes `logits`, apart from elementwise operations on one
// tensor (a soft cap) that come after it. Returns -1 if no node makes them.
int head_product(const Graph& graph, int logits);

// Returns whether the node is a cross-entropy over the vocabulary, not over classes. Ranks may
// share the logits of such a loss, and these logits are padded. Logits over classes are neither
// shared nor padded.
bool is_over_vocabulary(const Node& node);

}  // namespace meshwright::compiler
