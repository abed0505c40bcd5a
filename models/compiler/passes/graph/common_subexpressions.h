// What is computed twice from the same tensors in the same way is computed once. Forward and
// recomputed nodes are never taken for each other: what is recomputed is meant to be made again.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph share_common_subexpressions(Graph graph, const Plan& plan);

}  // namespace meshwright
