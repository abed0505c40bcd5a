// The product that makes the logits, the cross-entropy and all their gradients become one operation
// on some rows at a time, in the backward: the logits of all rows never exist. Where ranks share
// the vocabulary, the rows' sums are exchanged between the two halves, and they stay apart.
#pragma once

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

Graph fuse_loss(Graph graph, const Plan& plan);

}  // namespace meshwright
