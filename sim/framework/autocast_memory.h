// Models the memory of training with automatic mixed precision, as in PyTorch's autocast in fp16
// (torch.amp's lists of operations). Parameters, gradients and both moments are fp32. Matmuls read
// fp16 copies of their inputs. Norms, softmax and the loss are fp32. Between forward and backward,
// an operation saves what PyTorch's derivatives.yaml names.
#pragma once

#include <cstdint>

#include "models/program/graph/graph.h"

namespace meshwright::sim {

enum class Execution : std::uint8_t {
  // Runs operation by operation, each of which makes its own copies.
  eager,
  // Runs the whole step as one program (XLA). Only operands and results of matmuls, inputs of
  // norms, and softmax are saved. Other elements are recomputed from these in the kernel that needs
  // them, and equal copies are made once.
  compiled
};

struct FrameworkTraits {
  Execution execution = Execution::eager;
  // Whether gradients have a second copy, which is the one that is communicated (PyTorch's
  // DistributedDataParallel).
  bool gradient_buckets = false;
  // Whether softmax and log-softmax save their input. Before PyTorch 1.11 their gradient formulas
  // named the input, if only for its type, and so autograd saved it, in fp32
  // (pytorch/pytorch#49600, #65242). A compiler drops what nothing reads.
  bool softmax_keeps_input = false;
  // Whether random bits are saved from the forward to the backward. A compiled dropout compares
  // random bits with its rate: on XLA it was composed of elementwise operations (its fused
  // operator, with a mask of its own, came later: pytorch/xla#5643). Before torch_xla 1.13, XLA's
  // RngBitGenerator made the bits on GPUs, by Philox with four interleaved outputs, and saved them,
  // 32 bits per element (#5581). ThreeFry, since then (#3951), is elementwise too, and each kernel
  // that needs a mask recomputes it: what #4815 publishes of BERT's buffers leaves no room for
  // masks.
  bool keeps_random_bits = false;
};

// Returns `forward`, the graph of a model with an encoder and a decoder, with `tokens` tokens of
// each sequence in the encoder, to count the memory of such a graph. The decoder reads as many
// tokens as before. Attributes are not updated, so the graph cannot run.
Graph with_source_length(Graph forward, int tokens);

// Returns the bytes of all tensors at the peak of a step. `forward` is a model's graph as
// build_graph makes it, on one rank. Throws InputError for fused attention and for any other
// operation whose memory use is not known.
std::int64_t autocast_peak_bytes(const Graph& forward, const FrameworkTraits& framework);

// Returns whether steps run in `capacity` bytes if memory is allocated as in PyTorch (allocator.h):
// sizes are rounded up, and segments are split into blocks that later requests may not fit. Throws
// InputError like autocast_peak_bytes().
bool autocast_fits(const Graph& forward, const FrameworkTraits& framework, std::int64_t capacity);

}  // namespace meshwright::sim
