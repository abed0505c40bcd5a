// Recomputes what works row by row on tensors that the backward needs anyway (a norm, an activation
// function) instead of saving it. This costs one pass over memory, next to gradients that read the
// same tensors.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// Returns whether the pass would look for something to recompute, without regard to
// `plan.training.rematerialize_rows`.
bool may_rematerialize_rows(const Plan& plan);

// Runs the pass, unless the plan says that rows are kept.
Graph rematerialize_rows(Graph graph, const Plan& plan);

}  // namespace meshwright
