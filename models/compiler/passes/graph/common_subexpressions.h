// Merges nodes of one unit and phase that compute the same from the same tensors. Forward and
// recomputed nodes are never merged, because recomputation is meant to repeat work.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph share_common_subexpressions(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
