// Merges matmuls of one tensor with several weights (queries, keys and values; gate and up) into
// one operation, and so their gradients. The gradient of the tensor is then summed inside the
// matmul.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph merge_products(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
