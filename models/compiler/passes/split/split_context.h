// Context parallelism: every rank works on its own tokens of each sequence
// (models/program/graph/context.h). All operations except attention work token by token and stay as
// they are. ring_attention.h splits attention.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph split_context(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
