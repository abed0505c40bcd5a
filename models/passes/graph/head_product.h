// Which product makes the logits of a loss.
#pragma once

#include "models/graph/graph.h"

namespace meshwright {

// The node behind `logits`, through what works element by element on one tensor (a soft cap).
int head_product(const Graph& graph, int logits);

}  // namespace meshwright
