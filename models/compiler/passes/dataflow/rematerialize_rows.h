// Recomputes operations that work row by row on tensors that the backward needs anyway (a norm, an
// activation function) instead of saving their results. This costs one pass over memory, next to
// gradients that read the same tensors.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns whether the pass would look for something to recompute, without regard to
// `plan.training.rematerialize_rows`.
bool may_rematerialize_rows(const Plan& plan);

// Runs the pass. Returns the graph unchanged if the plan sets training.rematerialize_rows to false
// or may_rematerialize_rows() is false. If the plan leaves that key open, the pass runs.
Graph rematerialize_rows(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
