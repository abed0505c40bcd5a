// Attention over sequences that a context group shares: queries stay, keys and values go around the
// ring of the group (Liu et al., "Ring Attention with Blockwise Transformers", 2023), or are
// gathered from all. Each step adds to a softmax whose sums are kept as their logarithm. In the
// backward pass the gradients of keys and values travel along with them and come home in the end.
// Where heads were exchanged among neighbours before (exchange_heads.h), rings are of every so
// many-th rank.
//
// PyTorch's (torch/distributed/tensor/experimental/_attention.py) repeats keys and values to all
// heads of queries, as attention without groups needs them, and gathers those; blocks are merged in
// fp32, and the gradients of keys and values travel in fp32 and in all heads. In a compiled block
// every exchange is waited for where it begins (_maybe_wrap_tensor in
// torch/distributed/_functional_collectives.py), so nothing goes beside it.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph ring_attention(Graph graph, const Plan& plan);

}  // namespace meshwright
