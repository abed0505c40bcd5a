// Products of one tensor with several weights (queries, keys and values; gate and up) become one,
// and so do their gradients: the one for the tensor is then summed inside the product.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph merge_products(Graph graph, const Plan& plan);

}  // namespace meshwright
