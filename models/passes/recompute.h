// Activation recomputation: forward nodes are repeated before the gradients of their block, so that
// what they make is not kept from forward to backward. `full`: whole blocks, their input is kept
// (Chen 2016); `selective`: attention only (Korthikanti 2022). recompute_fraction: share of the
// blocks, evenly spread.
#pragma once

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

Graph recompute(Graph graph, const Plan& plan);

}  // namespace meshwright
