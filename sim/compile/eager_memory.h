// What an eager framework holds while it trains with automatic mixed precision, as PyTorch's
// autocast in fp16 does (torch.amp's list of operations): parameters, gradients and both moments
// are fp32; products take fp16 copies of what they read; norms, softmax and the loss are fp32.
// Autograd keeps what the formulas of PyTorch's derivatives.yaml name, from the forward of an
// operation to its backward.
#pragma once

#include <cstdint>

#include "models/graph/graph.h"

namespace meshwright {

// Bytes of all tensors at the fullest moment of a step. `forward`: a model's graph as build_graph
// makes it, unfused attention, on one rank. `gradient_buckets`: gradients have a second copy, in
// which they travel (PyTorch's DistributedDataParallel). InputError for an operation of which
// nothing is known here.
std::int64_t eager_peak_bytes(const Graph& forward, bool gradient_buckets);

}  // namespace meshwright
