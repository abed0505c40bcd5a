// Chains of operations that work row by row become one operation each: what they pass to each other
// stays in a cache (models/program/graph/fusion.h), and a tensor that several of them read is read
// once.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph fuse_rows(Graph graph, const Plan& plan);

}  // namespace meshwright
