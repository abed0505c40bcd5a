// Tensor parallelism as in Megatron-LM (Shoeybi 2019; sequence parallelism: Korthikanti 2022):
// products are cut by columns then rows, attention by heads, embedding, head and cross-entropy by
// the vocabulary. The result is the graph of one rank of the tensor group, with the communication
// as nodes.
#pragma once

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

Graph split_tensors(Graph graph, const Plan& plan);

}  // namespace meshwright
