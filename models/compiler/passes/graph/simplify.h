// Algebra: what undoes what was just done, and what does nothing, is left out. Rows and columns
// that ranks exchange there and back are not exchanged.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph simplify(Graph graph, const Plan& plan);

}  // namespace meshwright
