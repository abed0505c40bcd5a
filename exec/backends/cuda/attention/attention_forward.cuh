// Flash attention, forward (Dao, 2023). A block has the queries of one head in shared memory, and
// keys and values come there tile by tile. Only the scores of one tile exist at a time, in
// registers. The softmax uses a running maximum and sum, from which the log-sum-exp is computed at
// the end.
#pragma once

#include "exec/backends/cuda/attention/attention_scores.cuh"
#include "exec/backends/cuda/device/launch.h"

namespace meshwright::exec::cuda {

template <typename T>
struct ForwardOperands {
  NearHeads<const T> q, k, v;
  NearHeads<T> y;
  float* log_sums;  // [batch * heads, held]
  // The normalized y and its log-sum-exp from the earlier steps around the ring of a context group.
  // Both are null if there are none.
  NearHeads<const T> y_before;
  const float* log_sums_before;
};

// The sizes of a block's tiles. For each product, a warp of 32 rows reads a tile of keys half as
// often as a warp of 16, so warps have 32 rows wherever registers suffice. A thread has 255
// registers. Of these, y takes fragments * D / 2, the scores fragments * keys / 2, and kept queries
// fragments * D / 4.
//
// With 16-bit types and without extras, tiles take 36 KiB (D = 64) and 68 KiB (D = 128) of shared
// memory. Two blocks, all that the registers allow, then share a multiprocessor of sm_80 and sm_90.
//
// The bound on an H100 follows from its multiprocessor, which takes a product of 16 x 8 x 16 and
// 128 bytes of shared memory a clock. 4 (D = 64) and 5 (D = 128) matrices of 128 bytes are loaded
// for 4 products, which allows 100 % and 80 % of 989 TFLOP/s. With D = 64 the exponentials, 16 a
// clock, take as long again as the products. `small` is the constant of with_tile_size().
template <typename T, int D, bool with_extras, bool small>
struct ForwardTile {
  static constexpr bool half = sizeof(T) == 2;
  static constexpr int fragments = half && D <= 128 ? 2 : 1;
  static constexpr int warps = (half && D > 128 ? 8 : 4) / (small ? 2 : 1);
  static constexpr int keys = (half && D <= (with_extras ? 64 : 128) ? 64 : 32) / (small ? 2 : 1);
  static constexpr int queries = 16 * fragments * warps;
  static constexpr int threads = 32 * warps;
  static constexpr bool keep_queries = half && D <= 64 && !with_extras;
  static constexpr int shared_bytes = tile_bytes<T, D>(queries + 2 * keys);
};

// The part of the softmax that each lane holds for its rows: the maxima in base 2, and the sums
// over the lane's own columns.
template <int M>
struct Softmax {
  float maximum[M][2], sum[M][2];
};

// Turns a tile's scores s, which become base 2 when multiplied by `unit`, into weights exp2(score -
// maximum). Rescales the earlier sums and y to the new maximum.
template <int M, int N, int D>
__device__ inline void update_softmax(float (&s)[M][N][4], float unit, Softmax<M>& softmax,
                                      float (&y)[M][D][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float highest = s[m][0][2 * h];
#pragma unroll
      for (int n = 0; n < N; ++n)
        highest = fmaxf(highest, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
      const float before = softmax.maximum[m][h];
      const float maximum = fmaxf(before, maximum_of_row(highest) * unit);
      const float factor = fast_exp2(before - maximum);
      float sum = softmax.sum[m][h] * factor;
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          s[m][n][2 * h + e] = fast_exp2(fmaf(s[m][n][2 * h + e], unit, -maximum));
          sum += s[m][n][2 * h + e];
        }
      softmax.maximum[m][h] = maximum;
      softmax.sum[m][h] = sum;
#pragma unroll
      for (int d = 0; d < D; ++d) {
        y[m][d][2 * h] *= factor;
        y[m][d][2 * h + 1] *= factor;
      }
    }
}

// Computes y and the log-sum-exp for a block of queries. Tiles that a causal mask hides from the
// block are skipped. There are two barriers a tile: values are copied while scores are computed,
// and the next keys while values are weighed.
template <typename T, int D, bool with_extras, bool small>
__global__ void __launch_bounds__(ForwardTile<T, D, with_extras, small>::threads,
                                  resident_blocks<ForwardTile<T, D, with_extras, small>>)
    attention_forward(AttentionShape shape, ScoreExtras extras, ForwardOperands<T> operands) {
  using Tile = ForwardTile<T, D, with_extras, small>;
  constexpr int M = Tile::fragments, N = Tile::keys, pitch = row_pitch<T, D>;
  T* const q_tile = reinterpret_cast<T*>(shared_memory());
  T* const k_tile = q_tile + Tile::queries * pitch;
  T* const v_tile = k_tile + N * pitch;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * M;

  const QueryBlock block(shape, Tile::queries);
  const int kv_head = block.head / (shape.heads / shape.kv_heads);
  const int token = shape.query_row(block.sequence, block.half);  // row of the half's first query
  const auto rows_of = [&](const NearHeads<const T>& heads, int head, int first_row, int first) {
    return HeadRows<const T>{heads.at(first_row + first, head), heads.row, shape.length - first,
                             shape.dim, shape.vectors};
  };
  load_tile<Tile::queries, D, Tile::threads>(q_tile,
                                             rows_of(operands.q, block.head, token, block.first));

  const int query = block.first + warp_row + lane / 4;  // the lane's first query
  const auto saved_row = [&] {
    return (static_cast<long long>(block.sequence) * shape.heads + block.head) * shape.held +
           block.half * shape.length;
  };
  const T* const y_before = operands.y_before.data;
  Softmax<M> softmax;
  float y[M][D / 8][4];
  for_elements(y, [](float& x, int, int) { x = 0.0f; });
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = query + 16 * m + 8 * h;
      const bool continues = y_before != nullptr && i < shape.length;
      softmax.maximum[m][h] =
          continues ? operands.log_sums_before[saved_row() + i] * log2_e : -INFINITY;
      softmax.sum[m][h] = continues && lane % 4 == 0 ? 1.0f : 0.0f;
    }
  if (y_before != nullptr)
    for_elements(y, [&](float& x, int row, int column) {
      const int i = query + row, c = lane % 4 * 2 + column;
      if (i < shape.length && c < shape.dim)
        x = widened(operands.y_before.at(token + i, block.head)[c]);
    });

  const Score score(shape, extras, block.sequence, block.head, block.half);
  const KeptWeights kept(shape, extras, block.sequence, block.head, block.half);
  LeftRows<T, M, D, Tile::keep_queries> queries(q_tile + warp_row * pitch);
  KeyTiles<Tile::queries, N, with_extras> tiles(shape, block);
  const auto load_keys = [&] {
    if (!tiles.done())
      load_tile<N, D, Tile::threads>(k_tile,
                                     rows_of(operands.k, kv_head, tiles.row(), tiles.first()));
    copies_commit();
  };
  load_keys();
  copies_wait<0>();
  __syncthreads();
  queries.keep();
  while (!tiles.done()) {
    load_tile<N, D, Tile::threads>(v_tile,
                                   rows_of(operands.v, kv_head, tiles.row(), tiles.first()));
    copies_commit();
    const int key = tiles.first(), key_place = tiles.key_place(), ahead = tiles.ahead();
    const bool visible = !shape.causal || key <= block.first + warp_row + 16 * M - 1 + ahead;
    const bool whole =
        key + N <= shape.length && (!shape.causal || key + N - 1 <= block.first + warp_row + ahead);
    float s[M][N / 8][4];
    if (visible) {
      multiply_rows<N>(s, queries, k_tile);
      if constexpr (with_extras) {
        cap_products(s, extras.cap);
        for_elements(s, [&](float& x, int row, int column) {
          const int i = query + row + ahead;
          x = score(x, key + lane % 4 * 2 + column - i, i + key_place);
        });
      }
      if (!whole)
        for_elements(s, [&](float& x, int row, int column) {
          const int j = key + lane % 4 * 2 + column;
          if (j >= shape.length || (shape.causal && j > query + row + ahead)) x = -INFINITY;
        });
    }
    copies_wait<0>();
    __syncthreads();  // the values are there, and the keys are no longer needed
    tiles.advance();
    if (visible) {
      update_softmax(s, with_extras ? 1.0f : shape.scale_base_2, softmax, y);
      if (with_extras && kept.any()) {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
          for (int n = 0; n < N / 8; ++n) {
            const unsigned int left =
                kept.across(block.first + warp_row + 16 * m, key + 8 * n, key_place);
#pragma unroll
            for (int i = 0; i < 4; ++i) s[m][n][i] = kept.left(s[m][n][i], (left >> i & 1u) != 0);
          }
      }
    }
    load_keys();
    if (visible) weigh_rows<D, N>(y, Weights<T, M, N>(s), v_tile);
    copies_wait<0>();
    __syncthreads();  // the next keys are there, and the values are no longer needed
  }

#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = sum_of_row(softmax.sum[m][h]);
      const int i = query + 16 * m + 8 * h;
      if (lane % 4 == 0 && i < shape.length)
        operands.log_sums[saved_row() + i] = (softmax.maximum[m][h] + log2f(sum)) * ln_2;
      const float scale = 1.0f / sum;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        y[m][d][2 * h] *= scale;
        y[m][d][2 * h + 1] *= scale;
      }
    }
  const int first = block.first + warp_row;
  store_rows<T, M, D>(y, q_tile + warp_row * pitch,
                      {operands.y.at(token + first, block.head), operands.y.row,
                       shape.length - first, shape.dim, shape.vectors});
}

}  // namespace meshwright::exec::cuda
