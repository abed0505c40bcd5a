// Scratch memory of operations on a GPU beside their operands: sums of parts of the rows, and what
// one kernel of an operation leaves for the next. It is decided here alone: the simulator plans the
// memory that the engine allocates.
#pragma once

#include <cstdint>

#include "models/program/graph/op_call.h"

namespace meshwright {

// Bytes, on any GPU; 0 for most operations. One thing is known on the device alone, and may differ
// there: whether a fusion became one kernel.
std::int64_t gpu_scratch_bytes(const OpCall& call);

// Whether cuDNN may compute an attention of a whole sequence: `attention` is cudnn, and it is one
// that cuDNN has kernels for. Its scratch memory is then planned, whoever computes it in the end.
bool may_be_cudnns(const OpCall& call);

// Returns the bytes of a weight gradient that is made apart from its sum, in the factors' type,
// before another kernel adds it (Attributes::accumulate_separately). Returns 0 for other
// operations.
std::int64_t bytes_apart(const OpCall& call);

// Sums over the rows of a matrix are made in chunks of rows, side by side, and then of those: few
// enough that their sums are little beside the rows, enough to keep a large device busy.
struct RowChunks {
  std::int64_t rows_of_chunk, chunks;
  RowChunks(std::int64_t rows, std::int64_t least_rows, std::int64_t most_chunks);
  std::int64_t bytes(std::int64_t columns, std::int64_t sums) const;  // in fp32
};
RowChunks chunks_of_sums(std::int64_t rows);
// Largest number of columns for which a block of a norm's gradient holds its rows in registers.
// Rows must consist of whole 16-byte pieces.
constexpr std::int64_t longest_held_row = 8192;
constexpr int columns_of_norm_thread = 8;
constexpr std::int64_t norm_threads(std::int64_t columns) {
  const std::int64_t threads =
      (columns + 32 * columns_of_norm_thread - 1) / (32 * columns_of_norm_thread) * 32;
  return threads <= 192 ? threads : threads <= 256 ? 256 : threads <= 512 ? 512 : 1024;
}
// Returns how many blocks of a norm's gradient run at once on a multiprocessor. Each thread has 96
// registers, or 64 in large blocks.
constexpr std::int64_t norm_grad_blocks_at_once(std::int64_t threads) {
  return threads <= 192 ? 640 / threads : threads <= 256 ? 3 : 1024 / threads;
}
RowChunks chunks_of_norm_grad(const TensorType& x);
// Largest numbers of columns of the rows that warps process in a fusion's gradients of parameters.
// Blocks process longer rows. The second limit holds where warps add up columns.
constexpr std::int64_t longest_row_of_fused_warp = 1024, longest_adding_row_of_warp = 256;
RowChunks strips_of_fusion(std::int64_t rows, std::int64_t columns);
// Returns how many blocks of `threads` threads run at once on a multiprocessor. Each of its four
// parts runs five warps, which leaves 96 registers to a thread.
constexpr std::int64_t adding_blocks_at_once(std::int64_t threads) { return 640 / threads; }

// The parts of what attention's gradient needs, in fp32 numbers. With a table of relative
// positions: each head's bias by distance, the gradient's sums by distance of each block of so many
// queries, and of all.
struct AttentionGradScratch {
  std::int64_t rows = 0;  // of all heads: two sums for each
  std::int64_t bias = 0, distances = 0, sums = 0;
  AttentionGradScratch(const Attributes& a, Dtype dtype);
};
// Returns the least number of query rows of a block of attention's gradient. A block has twice as
// many on a GPU that has the shared memory for them.
constexpr int least_query_gradient_rows(bool of_16_bits, int head_dim) {
  const bool wide = head_dim > 128;
  return of_16_bits ? (wide ? 32 : 64) : (wide ? 16 : 32);
}
// The numbers of a norm of heads without weights that its kernels read as weights, each of which is
// to be added to 1: zeros, from byte `begin` of the scratch memory on.
struct UnitWeight {
  std::int64_t begin = 0, bytes = 0;
  explicit UnitWeight(const OpCall& call);
};
// Scratch memory of attention whose values have a width of their own. It runs on values, outputs
// and their gradients that are as wide as queries. They begin at byte `begin`, each rounded up.
struct WideValues {
  std::int64_t begin = 0, bytes = 0;  // of all scratch memory
  explicit WideValues(const OpCall& call);
  static constexpr std::int64_t rounded_up(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
};
// Returns the bytes of attention's bias for each head and each distance from -relative_distance to
// relative_distance.
std::int64_t relative_bias_bytes(const Attributes& a);
constexpr int relative_strip_rows = 32;  // of a score matrix's gradient, summed by buckets

unsigned int square_sum_blocks(std::int64_t elements);  // a sum of squares each, in f64

// The parts of what a routing to experts needs, in bytes: choices, what the softmaxes divide by,
// products of loads and probabilities; dropless, where each expert's rows begin, and of each
// sequence whether a choice found none.
struct RouteScratch {
  std::int64_t choices, softmax, products, rows = 0;
  explicit RouteScratch(const Attributes& a);
};

}  // namespace meshwright
