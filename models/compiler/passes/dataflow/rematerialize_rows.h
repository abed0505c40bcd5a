// Recomputes operations that work row by row (a norm, an activation function) on tensors that the
// backward needs anyway, instead of saving their results. This costs about one pass over memory,
// next to the gradients that read the results.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns whether the plan allows the pass, without regard to `plan.training.rematerialize_rows`.
bool may_rematerialize_rows(const Plan& plan);

// Runs the pass. Returns the graph unchanged if the plan sets training.rematerialize_rows to false
// or may_rematerialize_rows() is false. If the plan leaves that key open, the pass runs.
Graph rematerialize_rows(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
