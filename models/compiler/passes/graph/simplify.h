// Removes operations that do nothing, that repeat the relu before, or that undo the operation
// before, for example exchanges of rows or columns between ranks there and back.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph simplify(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
