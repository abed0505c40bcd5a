// Tensor parallelism. The result is the graph of one rank of the tensor group, with the
// communication as nodes. Layouts:
//   megatron  as in Megatron-LM (Shoeybi 2019; sequence parallelism: Korthikanti 2022): matmuls
//             are split by columns then rows, attention by heads, embedding, head and
//             cross-entropy by the vocabulary;
//   speed     SageMaker's `optimize: "speed"`: the same blocks, but the token table and the head
//             are split by the hidden size, as its DistributedEmbedding is;
//   memory    everything is split by the hidden size (split_hidden.h).
// If each rank has a batch of its own, it reads its share of the micro-batch's sequences.
// Operations that are not split work on that share, as under sequence parallelism.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph split_tensors(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
