// What training with automatic mixed precision holds, as PyTorch's autocast in fp16 does
// (torch.amp's lists of operations): parameters, gradients and both moments are fp32; products take
// fp16 copies of what they read; norms, softmax and the loss are fp32. From the forward of an
// operation to its backward is kept what PyTorch's derivatives.yaml names.
#pragma once

#include <cstdint>

#include "models/graph/graph.h"

namespace meshwright {

enum class Execution : std::uint8_t {
  eager,    // operation by operation: each keeps its own copies
  compiled  // the whole step as one program (XLA): elements that follow from others that are kept
            // are made again in the kernel that needs them; equal copies are one; what is kept are
            // operands and results of products, inputs of norms, softmax, and random masks
};

// What memory is counted of where the encoder reads `tokens` tokens of each sequence, and the
// decoder as many as before. Attributes stay as they are: nothing can run such a graph.
Graph with_source_length(Graph forward, int tokens);

// Bytes of all tensors at the fullest moment of a step. `forward`: a model's graph as build_graph
// makes it, unfused attention, on one rank. `gradient_buckets`: gradients have a second copy, in
// which they travel (PyTorch's DistributedDataParallel). InputError for an operation of which
// nothing is known here.
std::int64_t autocast_peak_bytes(const Graph& forward, Execution execution, bool gradient_buckets);

// Whether eager steps run in `capacity` bytes, handed out as PyTorch does (allocator.h): rounded
// up, and in segments that fall apart into blocks which later requests do not fit.
bool autocast_fits(const Graph& forward, bool gradient_buckets, std::int64_t capacity);

}  // namespace meshwright
