// Context parallelism: every rank works on its own tokens of each sequence
// (models/graph/context.h). All but attention works on rows of tokens and need not know;
// ring_attention.h does the rest.
#pragma once

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

Graph split_context(Graph graph, const Plan& plan);

}  // namespace meshwright
