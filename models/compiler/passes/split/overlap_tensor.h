// Where `parallelism.overlap` names tensor: orders a unit's backward such that collectives of the
// tensor group go on beside products that do not need them. The sum (or scatter) of an input's
// gradient starts when that is made, before the gradients of the same weights; and what is gathered
// for a weight's gradient alone, before the product that makes the input's. Where it names expert,
// the same of the exchange that takes the gradients of what experts took back to the tokens' ranks;
// and shared experts, and in the backward the router, go beside a unit's first exchange.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph overlap_tensor(Graph graph, const Plan& plan);

}  // namespace meshwright
