// If `parallelism.overlap` names tensor, orders a unit's backward such that collectives of the
// tensor group overlap with matmuls that do not need them. The sum (or scatter) of an input's
// gradient starts when that is made, before the gradients of the same weights. What is gathered
// only for a weight's gradient starts before the matmul that makes the input's gradient. If it
// names expert, the same is done for the all-to-all that takes gradients from the experts' inputs
// back to the tokens' ranks. Shared experts, and in the backward the router, then overlap with a
// unit's first all-to-all.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph overlap_tensor(Graph graph, const Plan& plan);

}  // namespace meshwright
