// Tensor parallelism. The result is the graph of one rank of the tensor group, with the
// communication as nodes. These are the layouts:
//   megatron  as in Megatron-LM (Shoeybi 2019, and Korthikanti 2022 for sequence parallelism).
//             Matmuls are split by columns and then by rows, attention by heads, and embedding,
//             head and cross-entropy by the vocabulary.
//   speed     as SageMaker's `optimize: "speed"`. Blocks are split as in megatron, but the token
//             table and the head by the hidden size, as its DistributedEmbedding is.
//   memory    everything is split by the hidden size (split_hidden.h).
// If each rank has a batch of its own, it reads its share of the micro-batch's sequences.
// Operations that are not split work on that share, as under sequence parallelism.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph split_tensors(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
