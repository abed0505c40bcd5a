// Converts an operation's attributes and operands to the arguments of attention's kernels.
#pragma once

#include <numbers>
#include <type_traits>

#include "exec/backends/cuda/attention/attention_scores.cuh"
#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"
#include "models/program/graph/context.h"

namespace meshwright::exec::cuda {

// Returns the heads in a tensor [rows, heads * head_dim], such as y, or the gradient of the queries
// of a context group.
template <typename T>
Heads<T> heads_in_rows(const Attributes& a, T* data) {
  return {data, std::int64_t{a.heads} * a.head_dim, a.head_dim};
}

// Returns the heads of keys and values in a tensor [rows, 2 * kv_heads * head_dim], as context_pack
// writes it. The queries are null.
template <typename T>
QueryKeyValue<T> keys_values(const Attributes& a, T* kv) {
  const std::int64_t half = std::int64_t{a.kv_heads} * a.head_dim;
  return {{}, {kv, 2 * half, a.head_dim}, {kv + half, 2 * half, a.head_dim}};
}

inline AttentionShape shape_of(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const auto unit = 16 / bytes_of(k.call.inputs[0].dtype);
  AttentionShape shape{};
  shape.batch = a.micro_batch;
  shape.heads = a.heads;
  shape.kv_heads = a.kv_heads;
  shape.dim = a.head_dim;
  shape.held = shape.length = a.sequence_length;
  shape.halves = shape.sources = shape.degree = 1;
  shape.one_source = true;
  shape.blocks_at_once = 6 * k.device.multiprocessors;
  shape.causal = a.causal;
  shape.vectors = a.head_dim % unit == 0;
  const double scale = score_scale(a);
  shape.scale = static_cast<float>(scale);
  shape.scale_base_2 = static_cast<float>(scale * std::numbers::log2e);
  shape.documents = k.documents();
  return shape;
}

// Returns the shape for an operation of a context group, in which a rank has two halves of each
// sequence.
inline AttentionShape context_shape_of(const KernelCall& k) {
  const Attributes& a = k.attributes();
  AttentionShape shape = shape_of(k);
  shape.halves = 2;
  shape.length = a.sequence_length / 2;
  shape.degree = a.context_degree;
  shape.rank = rank_of_part(a, k.context.context_rank);
  shape.one_source = a.ring_step >= 0;
  shape.sources = shape.one_source ? 1 : a.context_degree;
  shape.first_step = shape.one_source ? a.ring_step : 0;
  return shape;
}

inline ScoreExtras extras_of(const KernelCall& k) {
  const Attributes& a = k.attributes();
  ScoreExtras extras{};
  extras.first_head =
      static_cast<int>(first_head_of(a, k.context.tensor_rank, k.context.context_rank));
  extras.alibi_heads = a.alibi ? a.alibi_heads : 0;
  extras.farthest = a.relative_distance;
  extras.dropped = static_cast<unsigned int>(a.dropout * 0x1p32);
  extras.kept_scale = static_cast<float>(1 / (1 - a.dropout));
  extras.key = a.dropout_key;
  extras.step_sequence = k.first_sequence.of_step;
  extras.first_sequence = k.first_sequence.offset;
  extras.window = a.window;
  extras.chunk = a.chunk;
  extras.cap = static_cast<float>(a.score_cap / score_scale(a));
  extras.whole_length = std::int64_t{a.sequence_length} * a.context_degree;
  return extras;
}

// Calls use(D, with_extras) with two constants: D, the columns of a tile for heads of `dim`
// elements, and whether the kernel has ScoreExtras. All heads of more than 128 elements share one
// kernel with extras, because they are rare. Throws RunError if `dim` is more than 256.
template <typename T, typename Use>
void with_kernel(int dim, bool extras, const Use& use) {
  if (dim > 256)
    throw RunError("attention on a GPU needs heads of at most 256 elements, not " +
                   std::to_string(dim));
  const auto with_extras = [&](auto width) {
    if (extras)
      use(width, std::true_type());
    else
      use(width, std::false_type());
  };
  if (dim <= 64) return with_extras(std::integral_constant<int, 64>());
  if constexpr (sizeof(T) == 2) {
    if (dim <= 80) return with_extras(std::integral_constant<int, 80>());
    if (dim <= 96) return with_extras(std::integral_constant<int, 96>());
  }
  if (dim <= 128) return with_extras(std::integral_constant<int, 128>());
  use(std::integral_constant<int, 256>(), std::true_type());
}

// Calls use(small) with a constant that says whether to take small tiles, which have half the rows
// and half the columns. Small tiles are for GPUs on which a block cannot have `large_bytes` of
// shared memory. A block has at most 96 KiB on V100, 99 on A10G, 163 on A100 and 227 on H100. Tiles
// of at most 96 KiB have no small form.
template <int large_bytes, typename Use>
void with_tile_size(const Device& device, const Use& use) {
  constexpr int everywhere = 96 << 10;
  if constexpr (large_bytes > everywhere) {
    if (large_bytes > device.shared_bytes) return use(std::true_type());
  }
  use(std::false_type());
}

// Launches a kernel on tiles. Throws RunError if the GPU lacks the shared memory for them.
template <typename Tile, typename Kernel, typename... Arguments>
void launch_tiles(Kernel kernel, Shape3 blocks, std::int64_t shared_bytes, const KernelCall& k,
                  const Arguments&... arguments) {
  if (shared_bytes > k.device.shared_bytes)
    throw RunError("attention with heads of " + std::to_string(k.attributes().head_dim) +
                   " numbers needs " + std::to_string(shared_bytes >> 10) +
                   " KiB of shared memory for a block; this GPU has " +
                   std::to_string(k.device.shared_bytes >> 10));
  launch(kernel, blocks, {Tile::threads}, shared_bytes, k.stream, arguments...);
}

// Returns the number of blocks of a launch in which each block has one tile of up to `rows` rows.
// The tiles are those of all sequences, of `heads` heads and of `halves` halves of a sequence.
inline unsigned int tile_blocks(const AttentionShape& shape, int heads, int halves, int rows) {
  const std::int64_t tiles = (shape.length + rows - 1) / rows;
  return blocks_for(std::int64_t{shape.batch} * heads * halves * tiles, 1);
}

}  // namespace meshwright::exec::cuda
