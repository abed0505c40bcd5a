// What training with automatic mixed precision holds, as PyTorch's autocast in fp16 does
// (torch.amp's lists of operations): parameters, gradients and both moments are fp32; products take
// fp16 copies of what they read; norms, softmax and the loss are fp32. From the forward of an
// operation to its backward is kept what PyTorch's derivatives.yaml names.
#pragma once

#include <cstdint>

#include "models/program/graph/graph.h"

namespace meshwright {

enum class Execution : std::uint8_t {
  eager,    // operation by operation: each keeps its own copies
  compiled  // the whole step as one program (XLA): elements that follow from others that are kept
            // are made again in the kernel that needs them; equal copies are one; what is kept are
            // operands and results of products, inputs of norms, and softmax
};

struct FrameworkTraits {
  Execution execution = Execution::eager;
  // Gradients have a second copy, in which they travel (PyTorch's DistributedDataParallel).
  bool gradient_buckets = false;
  // Before PyTorch 1.11 the gradient formulas of softmax and log-softmax named their input, if only
  // for its type, and so autograd kept it, in fp32 (pytorch/pytorch#49600, #65242). A compiler
  // drops what nothing reads.
  bool softmax_keeps_input = false;
  // A compiled dropout compares random bits with its rate: on XLA it was composed of elementwise
  // operations (its fused operator, with a mask of its own, came later: pytorch/xla#5643). Before
  // torch_xla 1.13 XLA's RngBitGenerator made the bits on GPUs, Philox with four interleaved
  // outputs: they stay from the forward to the backward, 32 bits per element (#5581). ThreeFry,
  // since then (#3951), is elementwise too, and each kernel that needs a mask makes it again: what
  // #4815 publishes of BERT's buffers leaves no room for masks.
  bool keeps_random_bits = false;
};

// What memory is counted of where the encoder reads `tokens` tokens of each sequence, and the
// decoder as many as before. Attributes stay as they are: nothing can run such a graph.
Graph with_source_length(Graph forward, int tokens);

// Bytes of all tensors at the fullest moment of a step. `forward`: a model's graph as build_graph
// makes it, unfused attention, on one rank. InputError for an operation of which nothing is known
// here.
std::int64_t autocast_peak_bytes(const Graph& forward, const FrameworkTraits& framework);

// Whether steps run in `capacity` bytes, handed out as PyTorch does (allocator.h): rounded up, and
// in segments that fall apart into blocks which later requests do not fit.
bool autocast_fits(const Graph& forward, const FrameworkTraits& framework, std::int64_t capacity);

}  // namespace meshwright
