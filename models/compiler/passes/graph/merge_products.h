// Merges matmuls of one tensor with several weights (queries, keys and values, or gate and up) into
// one operation, and their gradients likewise. The gradients of the tensor through these weights
// are then summed inside the matmul.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph merge_products(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
