// Finds the matmul that makes the logits of a loss.
#pragma once

#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the index of the node that makes `logits`, looking through elementwise operations on one
// tensor (a soft cap). Returns -1 if no node makes it.
int head_product(const Graph& graph, int logits);

// Returns whether the node is a cross-entropy over the vocabulary. Ranks may share the logits of
// such a loss, and these are padded. Logits over classes are whole.
bool is_over_vocabulary(const Node& node);

}  // namespace meshwright::compiler
