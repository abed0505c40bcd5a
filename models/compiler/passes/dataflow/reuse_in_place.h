// Lets the result of an elementwise operation overwrite an operand that no later operation reads,
// to save memory.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph reuse_in_place(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
