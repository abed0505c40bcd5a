// Results that are made element by element take the place of an operand that nobody needs any more.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph reuse_in_place(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
