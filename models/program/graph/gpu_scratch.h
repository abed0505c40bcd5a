// Computes the scratch memory of operations on a GPU in addition to their operands: sums over parts
// of the rows, and data that one kernel of an operation leaves for the next. The simulator plans
// this memory, and the engine allocates it.
#pragma once

#include <cstdint>

#include "models/program/graph/op_call.h"

namespace meshwright::program {

// Returns the bytes of scratch memory of an operation, on any GPU. It is 0 for most operations. The
// engine may need another number for a fusion, because only the device knows whether it became one
// kernel.
std::int64_t gpu_scratch_bytes(const OpCall& call);

// Returns whether cuDNN may compute an operation `attention` or its gradient: the attribute
// `attention` is cudnn, and cuDNN has kernels for this case. At least cuDNN's scratch memory is
// then planned, whichever kernel runs in the end.
bool may_be_cudnns(const OpCall& call);

// Returns the bytes of a weight gradient that is made apart from its sum, in the type of its
// factors, before another kernel adds it (Attributes::accumulate_separately). Returns 0 for other
// operations.
std::int64_t bytes_apart(const OpCall& call);

// Divides the rows of a matrix into chunks, whose sums are made in parallel and then added up.
// There are few enough chunks that their sums are small compared with the rows, and enough to keep
// a large device busy.
struct RowChunks {
  std::int64_t rows_of_chunk, chunks;
  RowChunks(std::int64_t rows, std::int64_t least_rows, std::int64_t most_chunks);
  std::int64_t bytes(std::int64_t columns, std::int64_t sums) const;  // of fp32 sums of all chunks
};
RowChunks chunks_of_sums(std::int64_t rows);
// Largest number of columns for which a thread block of a norm's gradient holds its rows in
// registers. Rows must also consist of whole 16-byte pieces.
constexpr std::int64_t longest_held_row = 8192;
constexpr int columns_of_norm_thread = 8;
constexpr std::int64_t norm_threads(std::int64_t columns) {
  const std::int64_t threads =
      (columns + 32 * columns_of_norm_thread - 1) / (32 * columns_of_norm_thread) * 32;
  return threads <= 192 ? threads : threads <= 256 ? 256 : threads <= 512 ? 512 : 1024;
}
// Returns how many thread blocks of a norm's gradient run at once on a multiprocessor. This leaves
// to each thread 96 registers or more in blocks of up to 192 threads, 80 in blocks of 256, and 64
// in larger ones.
constexpr std::int64_t norm_grad_blocks_at_once(std::int64_t threads) {
  return threads <= 192 ? 640 / threads : threads <= 256 ? 3 : 1024 / threads;
}
RowChunks chunks_of_norm_grad(const TensorType& x);
// A fused kernel gives each row of at most this many columns to a warp, and longer rows to whole
// thread blocks. The second limit is for kernels that also sum columns over the rows, for parameter
// gradients.
constexpr std::int64_t longest_row_of_fused_warp = 1024, longest_adding_row_of_warp = 256;
RowChunks strips_of_fusion(std::int64_t rows, std::int64_t columns);
// Returns how many thread blocks of `threads` threads of a kernel that sums columns run at once on
// a multiprocessor. Each of its four parts runs five warps, which leaves 96 registers to a thread.
constexpr std::int64_t adding_blocks_at_once(std::int64_t threads) { return 640 / threads; }

// The scratch memory of attention's gradient, in fp32 numbers. With a table of relative positions,
// `bias` is each head's bias by distance, `distances` the gradient's sums by distance for each
// block of queries, and `sums` those of all queries; otherwise these three are 0.
struct AttentionGradScratch {
  std::int64_t rows = 0;  // of all heads; each has two sums
  std::int64_t bias = 0, distances = 0, sums = 0;
  AttentionGradScratch(const Attributes& a, Dtype dtype);
};
// Returns the least number of query rows of a block of attention's gradient. On GPUs with enough
// shared memory, a block has twice this number.
constexpr int least_query_gradient_rows(bool of_16_bits, int head_dim) {
  const bool wide = head_dim > 128;
  return of_16_bits ? (wide ? 32 : 64) : (wide ? 16 : 32);
}
// Says where in the scratch memory the zeros are that kernels read as the weight of a norm of heads
// without a weight: `bytes` bytes from byte `begin` on. The kernels add 1 to each zero. `bytes` is
// 0 if the norm has a weight.
struct UnitWeight {
  std::int64_t begin = 0, bytes = 0;
  explicit UnitWeight(const OpCall& call);
};
// Scratch memory of an attention whose values have another width than its queries. It runs on
// copies of values, outputs and their gradients that are as wide as queries. They begin at byte
// `begin`, each rounded up to 256 bytes.
struct WideValues {
  std::int64_t begin = 0, bytes = 0;  // of all scratch memory
  explicit WideValues(const OpCall& call);
  static constexpr std::int64_t rounded_up(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
};
// Returns the bytes of attention's bias, in fp32, for each head and each distance from
// -relative_distance to relative_distance.
std::int64_t relative_bias_bytes(const Attributes& a);
constexpr int relative_strip_rows = 32;  // rows of dscores in a sum by buckets

unsigned int square_sum_blocks(std::int64_t elements);  // thread blocks; each makes a sum in f64

// The scratch memory of a routing to experts, in bytes: choices, the denominators of softmaxes,
// products of loads and probabilities; for dropless layers also, in `rows`, where each expert's
// rows begin and, for each sequence, whether a choice found no row.
struct RouteScratch {
  std::int64_t choices, softmax, products, rows = 0;
  explicit RouteScratch(const Attributes& a);
};

}  // namespace meshwright::program
