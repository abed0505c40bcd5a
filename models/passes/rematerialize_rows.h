// What works row by row on tensors that the backward needs anyway (a norm, an activation function)
// is made again there rather than kept: it costs one pass over memory, beside gradients that read
// the same tensors.
#pragma once

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

Graph rematerialize_rows(Graph graph, const Plan& plan);

}  // namespace meshwright
