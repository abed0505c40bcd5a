// What works row by row on tensors that the backward needs anyway (a norm, an activation function)
// is made again there rather than kept: it costs one pass over memory, beside gradients that read
// the same tensors.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// Whether it would look for something to make again; `plan.training.rematerialize_rows` aside.
bool may_rematerialize_rows(const Plan& plan);

// Unless the plan says that rows are kept.
Graph rematerialize_rows(Graph graph, const Plan& plan);

}  // namespace meshwright
