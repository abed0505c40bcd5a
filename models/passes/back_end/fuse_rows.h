// Chains of operations that work row by row become one operation each: what they pass to each other
// stays in a cache (models/graph/fusion.h), and a tensor that several of them read is read once.
#pragma once

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

Graph fuse_rows(Graph graph, const Plan& plan);

}  // namespace meshwright
