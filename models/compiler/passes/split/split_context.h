// Context parallelism: every rank works on its own tokens of each sequence
// (models/program/graph/context.h). All but attention works on rows of tokens and need not know;
// ring_attention.h does the rest.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph split_context(Graph graph, const Plan& plan);

}  // namespace meshwright
