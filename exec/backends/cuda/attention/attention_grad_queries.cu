// Attention's gradient of the queries, and the sums by distance for the gradient of relative
// positions.
#include "exec/backends/cuda/attention/attention_backward.h"
#include "models/program/graph/gpu_scratch.h"

namespace meshwright::exec::cuda {

namespace {

// The sizes of a block's tiles. A thread has 255 registers. Of these, dQ takes fragments * D / 2,
// scores and their gradients fragments * keys / 2 each, and kept queries and dY fragments * D / 4
// each.
//
// With 16-bit types, tiles take 55 KiB (D = 64) and 103 KiB (D = 128) of shared memory. Two blocks,
// all that the registers allow, then share a multiprocessor of sm_90. The bound there, computed as
// in attention_forward.cuh without extras: 4 (D = 64) and 6.7 (D = 128) matrices are loaded for 4
// products, which allows 100 % and 60 % of 989 TFLOP/s. `small` is the constant of
// with_tile_size().
template <typename T, int D, bool with_extras, bool small>
struct QueryGradientTile {
  static constexpr bool half = sizeof(T) == 2, wide = D > 128;
  static constexpr int fragments = half && !wide ? 2 : 1;
  static constexpr int warps = (wide && !half ? 2 : 4) / (small ? 2 : 1);
  static constexpr int keys = (wide && !half ? 16 : 32) / (small ? 2 : 1);
  static constexpr bool keep = half && D <= 64 && !with_extras;  // queries and dY in registers
  static constexpr int queries = 16 * fragments * warps;
  static_assert(queries >= least_query_gradient_rows(half, D));
  static constexpr int threads = 32 * warps;
  static constexpr int tiles_bytes = tile_bytes<T, D>(2 * queries + 4 * keys);
  static constexpr int shared_bytes = tiles_bytes + 2 * queries * 4;
  // Rows have one more column, so that threads that add neighbouring diagonals read different
  // banks.
  static constexpr int distances_bytes = queries * (keys + 1) * 4;
};
template <typename T, int D, bool with_extras>
constexpr int large_tile_bytes = QueryGradientTile<T, D, with_extras, false>::shared_bytes +
                                 (with_extras
                                      ? QueryGradientTile<T, D, with_extras, false>::distances_bytes
                                      : 0);

// Adds the sum of each diagonal of the tile's gradients to the first `count` of the block's sums by
// distance.
template <typename Tile>
__device__ inline void add_diagonals(const float* gradients, float* sums, int count) {
  constexpr int columns = Tile::keys, rows = Tile::queries;
  for (int d = static_cast<int>(threadIdx.x); d < min(rows + columns - 1, count);
       d += Tile::threads) {
    float sum = 0.0f;
    for (int row = max(rows - 1 - d, 0); row < min(rows, rows + columns - 1 - d); ++row)
      sum += gradients[row * (columns + 1) + row + d - (rows - 1)];
    sums[d] += sum;
  }
}

// Computes dQ for a block of queries. There is one barrier a tile, or two if sums by distance are
// made: the next keys and values are copied while the block works on the present ones.
template <typename T, int D, bool with_extras, bool small>
__global__ void __launch_bounds__(QueryGradientTile<T, D, with_extras, small>::threads,
                                  resident_blocks<QueryGradientTile<T, D, with_extras, small>>)
    attention_grad_queries(AttentionShape shape, ScoreExtras extras, BackwardOperands<T> operands) {
  using Tile = QueryGradientTile<T, D, with_extras, small>;
  constexpr int M = Tile::fragments, N = Tile::keys, pitch = row_pitch<T, D>;
  T* const q_tile = reinterpret_cast<T*>(shared_memory());
  T* const dy_tile = q_tile + Tile::queries * pitch;
  T* const stages = dy_tile + Tile::queries * pitch;  // two stages, each with keys and values
  float* const sums = reinterpret_cast<float*>(shared_memory() + Tile::tiles_bytes);
  float* const gradients = sums + 2 * Tile::queries;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = own_warp() * 16 * M;

  const QueryBlock block(shape, Tile::queries);
  const int token = shape.query_row(block.sequence, block.half);  // row of the half's first query
  const auto rows_of = [&](const NearHeads<const T>& heads, int head, int first_row, int first) {
    return HeadRows<const T>{heads.at(first_row + first, head), heads.row, shape.length - first,
                             shape.dim, shape.vectors};
  };
  KeyTiles<Tile::queries, N, with_extras> tiles(shape, block);
  const auto load_stage = [&](int stage) {
    if (tiles.done()) return;
    const int kv_head = block.head / (shape.heads / shape.kv_heads);
    T* const k_tile = stages + stage * 2 * N * pitch;
    load_tile<N, D, Tile::threads>(k_tile,
                                   rows_of(operands.k, kv_head, tiles.row(), tiles.first()));
    load_tile<N, D, Tile::threads>(k_tile + N * pitch,
                                   rows_of(operands.v, kv_head, tiles.row(), tiles.first()));
  };
  load_tile<Tile::queries, D, Tile::threads>(q_tile,
                                             rows_of(operands.q, block.head, token, block.first));
  load_tile<Tile::queries, D, Tile::threads>(dy_tile,
                                             rows_of(operands.dy, block.head, token, block.first));
  load_stage(0);

  const int query = block.first + warp_row + lane / 4;  // the lane's first query
  // The offsets of the head's sums are recomputed for each use, because kept ones would take
  // registers that the products need.
  const auto head_row = [&] {
    return (static_cast<long long>(block.sequence) * shape.heads + block.head) * shape.held;
  };
  const int all_distances = shape.held + Tile::queries - 1;
  const auto distances = [&] {
    const int blocks = (shape.held + Tile::queries - 1) / Tile::queries;
    const long long place =
        (static_cast<long long>(block.sequence) * shape.heads + block.head) * blocks;
    return operands.distances + (place + block.first / Tile::queries) * all_distances;
  };
  const bool sums_distances = with_extras && operands.distances != nullptr;
  if (sums_distances)
    for (int d = static_cast<int>(threadIdx.x); d < all_distances; d += Tile::threads)
      distances()[d] = 0.0f;
  const long long own_row = head_row() + block.half * shape.length + block.first;
  for (int i = static_cast<int>(threadIdx.x); i < Tile::queries; i += Tile::threads) {
    const bool valid = block.first + i < shape.length;
    copy_async_4(sums + i, operands.log_sums + own_row + i, valid);
    copy_async_4(sums + Tile::queries + i, operands.row_sums + own_row + i, valid);
  }
  copies_commit();
  const float* const own_sums = sums + warp_row + lane / 4;
  float* const own_gradients = gradients + (warp_row + lane / 4) * (N + 1) + lane % 4 * 2;
  LeftRows<T, M, D, Tile::keep> queries(q_tile + warp_row * pitch);
  LeftRows<T, M, D, Tile::keep> dys(dy_tile + warp_row * pitch);
  const Score score(shape, extras, block.sequence, block.head, block.half);
  const KeptWeights kept(shape, extras, block.sequence, block.head, block.half);
  float dq[M][D / 8][4];
  for_elements(dq, [](float& x, int, int) { x = 0.0f; });
  if constexpr (Tile::keep) {
    copies_wait<0>();
    __syncthreads();
    queries.keep();
    dys.keep();
  }
  for (int stage = 0; !tiles.done(); stage ^= 1) {
    copies_wait<0>();
    __syncthreads();  // this tile is there, and the one before is no longer needed
    const int key = tiles.first(), ahead = tiles.ahead();
    const int key_place = with_extras ? tiles.key_place() : 0;
    tiles.advance();
    load_stage(stage ^ 1);
    copies_commit();
    const T* const k_tile = stages + stage * 2 * N * pitch;
    const bool visible = block.first + warp_row < shape.length &&
                         (!shape.causal || key <= block.first + warp_row + 16 * M - 1 + ahead);
    const bool whole = key + N <= shape.length && block.first + warp_row + 16 * M <= shape.length &&
                       (!shape.causal || key + N - 1 <= block.first + warp_row + ahead);
    if (!visible && !sums_distances) continue;  // a block that sums has one more barrier
    float s[M][N / 8][4], ds[M][N / 8][4];
    if (with_extras && operands.probabilities != nullptr) {
      for_elements(s, [&](float& x, int row, int column) {
        const int i = query + row, j = key + lane % 4 * 2 + column;
        const bool valid = i < shape.length && j < shape.length;
        x = valid ? widened(operands.probabilities[(head_row() + i) * shape.held + j]) : 0.0f;
      });
    } else {
      multiply_rows<N>(s, queries, k_tile);
      if constexpr (with_extras) cap_products(s, extras.cap);
      for_elements(s, [&](float& x, int row, int column) {
        const float log_sum = own_sums[row];
        if constexpr (with_extras) {
          const int i = query + row + ahead;
          x = fast_exp2(score(x, key + lane % 4 * 2 + column - i, i + key_place) - log_sum);
        } else {
          x = fast_exp2(fmaf(x, shape.scale_base_2, -log_sum));
        }
      });
      if (!whole)
        for_elements(s, [&](float& x, int row, int column) {
          const int j = key + lane % 4 * 2 + column;
          const int i = query + row;
          if (j >= shape.length || i >= shape.length || (shape.causal && j > i + ahead)) x = 0.0f;
        });
    }
    multiply_rows<N>(ds, dys, k_tile + N * pitch);
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
        if (with_extras && kept.any()) {
          const unsigned int left =
              kept.across(block.first + warp_row + 16 * m, key + 8 * n, key_place);
#pragma unroll
          for (int i = 0; i < 4; ++i) ds[m][n][i] = kept.left(ds[m][n][i], (left >> i & 1u) != 0);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
          ds[m][n][i] = s[m][n][i] * (ds[m][n][i] - own_sums[Tile::queries + 16 * m + i / 2 * 8]);
      }
    if (sums_distances)
      for_elements(
          ds, [&](float& x, int row, int column) { own_gradients[row * (N + 1) + column] = x; });
    if (with_extras && extras.cap > 0.0f) {
      multiply_rows<N>(s, queries, k_tile);
      uncap_gradients(ds, s, extras.cap);
    }
    weigh_rows<D, N>(dq, Weights<T, M, N>(ds), k_tile);
    if (sums_distances) {
      __syncthreads();
      add_diagonals<Tile>(gradients, distances() + key, all_distances - key);
    }
  }
  copies_wait<0>();
  __syncthreads();

  const int first = block.first + warp_row;
  const bool continues = operands.dq_before.data != nullptr;
  for_elements(dq, [&](float& x, int row, int column) {
    x *= shape.scale;
    const int i = query + row, c = lane % 4 * 2 + column;
    if (continues && i < shape.length && c < shape.dim)
      x += widened(operands.dq_before.at(token + i, block.head)[c]);
  });
  store_rows<T, M, D>(dq, q_tile + warp_row * pitch,
                      {operands.dq.at(token + first, block.head), operands.dq.row,
                       shape.length - first, shape.dim, shape.vectors});
}

}  // namespace

int rows_of_query_gradient(const Device& device, Dtype dtype, int head_dim) {
  int rows = 0;
  with_type(dtype, [&](auto element) {
    using T = decltype(element);
    with_kernel<T>(head_dim, true, [&](auto width, auto with_extras) {
      constexpr int D = decltype(width)::value;
      constexpr bool with = decltype(with_extras)::value;
      with_tile_size<large_tile_bytes<T, D, with>>(device, [&](auto size) {
        rows = QueryGradientTile<T, D, with, decltype(size)::value>::queries;
      });
    });
  });
  return rows;
}

template <typename T>
void query_gradients(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                     const BackwardOperands<T>& operands) {
  const bool any = extras.any() || shape.documents != nullptr || operands.probabilities != nullptr;
  with_kernel<T>(shape.dim, any, [&](auto width, auto with_extras) {
    constexpr int D = decltype(width)::value;
    constexpr bool with = decltype(with_extras)::value;
    with_tile_size<large_tile_bytes<T, D, with>>(k.device, [&](auto size) {
      constexpr bool small = decltype(size)::value;
      using Tile = QueryGradientTile<T, D, with, small>;
      launch_tiles<Tile>(
          attention_grad_queries<T, D, with, small>,
          {tile_blocks(shape, shape.heads, shape.halves, Tile::queries)},
          Tile::shared_bytes + (operands.distances != nullptr ? Tile::distances_bytes : 0), k,
          shape, extras, operands);
    });
  });
}

template void query_gradients(const KernelCall&, const AttentionShape&, const ScoreExtras&,
                              const BackwardOperands<float>&);
template void query_gradients(const KernelCall&, const AttentionShape&, const ScoreExtras&,
                              const BackwardOperands<f16>&);
template void query_gradients(const KernelCall&, const AttentionShape&, const ScoreExtras&,
                              const BackwardOperands<bf16>&);

}  // namespace meshwright::exec::cuda
