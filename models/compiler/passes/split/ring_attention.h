// Splits attention over sequences that a context group shares. Queries stay on their rank. Keys and
// values go around the ring of the group (Liu et al., "Ring Attention with Blockwise Transformers",
// 2023), or are gathered from all ranks. Each step of the ring adds to a softmax, of which the
// logarithm of the sums is saved. In the backward pass the gradients of keys and values travel with
// them and return to their rank in the end. If keys and values were gathered, their gradients are
// reduce-scattered instead. If neighbours have exchanged heads before (exchange_heads.h), each ring
// connects the ranks with the same position among their neighbours.
//
// With Parallelism::context_of_pytorch, attention is split as in PyTorch
// (torch/distributed/tensor/experimental/_attention.py), only to predict it. PyTorch repeats keys
// and values to all heads of queries, because its attention has no groups, and gathers the repeated
// ones. It merges blocks in fp32, and the gradients of keys and values travel in fp32 and in all
// heads. In a compiled block every transfer is waited for where it begins (_maybe_wrap_tensor in
// torch/distributed/_functional_collectives.py), so nothing overlaps with it.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph ring_attention(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
