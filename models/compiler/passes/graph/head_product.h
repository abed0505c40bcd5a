// Which product makes the logits of a loss.
#pragma once

#include "models/program/graph/graph.h"

namespace meshwright {

// The node behind `logits`, through what works element by element on one tensor (a soft cap).
int head_product(const Graph& graph, int logits);

// A cross-entropy over the vocabulary: ranks may share its logits out, and these are padded. Over
// classes they are whole.
bool is_over_vocabulary(const Node& node);

}  // namespace meshwright
