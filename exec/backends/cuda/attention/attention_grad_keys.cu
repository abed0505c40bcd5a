// Attention's gradients of keys and values. Registers hold scores transposed, with keys down and
// queries across, so that the probabilities can be the left side of the products without a
// transposition.
#include "exec/backends/cuda/attention/attention_backward.h"

namespace meshwright::exec::cuda {

namespace {

// The gradients that a kernel computes. Heads of more than 128 elements leave no room for both.
enum class Makes { both, values, keys };

// The sizes of a block's tiles. A thread has 255 registers. Of these, dK and dV take fragments * D
// / 2 each, and scores and their gradients fragments * queries / 2 each.
//
// With 16-bit types, tiles take 55 KiB (D = 64) and 137 KiB (D = 128) of shared memory. On a
// multiprocessor, two blocks of 4 warps and one of 8 fit, which is all that the registers allow.
// The bound on an H100, computed as in attention_forward.cuh: 6 (D = 64) and 9 (D = 128) matrices
// are loaded for 4 products, which allows 67 % and 44 % of 989 TFLOP/s. `small` is the constant of
// with_tile_size().
template <typename T, int D, bool small>
struct KeyGradientTile {
  static constexpr bool half = sizeof(T) == 2, wide = D > 128;
  static constexpr int fragments = half && D <= 64 ? 2 : 1;
  static constexpr int warps = (wide ? (half ? 4 : 2) : half && D > 64 ? 8 : 4) / (small ? 2 : 1);
  static constexpr int queries = (wide && !half             ? 16
                                  : half && D > 64 && !wide ? 64
                                                            : 32) /
                                 (small ? 2 : 1);
  static constexpr int keys = 16 * fragments * warps;
  static constexpr int threads = 32 * warps;
  static constexpr int tiles_bytes = tile_bytes<T, D>(2 * keys + 4 * queries);
  static constexpr int shared_bytes = tiles_bytes + 2 * queries * 2 * 4;
};

// Computes dK, dV or both for a block of keys. There is one barrier a tile: the next queries and
// their dY are copied while the block works on the present ones.
template <typename T, int D, bool with_extras, bool small, Makes makes>
__global__ void __launch_bounds__(KeyGradientTile<T, D, small>::threads,
                                  resident_blocks<KeyGradientTile<T, D, small>>)
    attention_grad_keys(AttentionShape shape, ScoreExtras extras, BackwardOperands<T> operands) {
  using Tile = KeyGradientTile<T, D, small>;
  constexpr int M = Tile::fragments, N = Tile::queries, pitch = row_pitch<T, D>;
  T* const k_tile = reinterpret_cast<T*>(shared_memory());
  T* const v_tile = k_tile + Tile::keys * pitch;
  T* const stages = v_tile + Tile::keys * pitch;  // two stages, each with queries and dY
  float* const sum_stages = reinterpret_cast<float*>(shared_memory() + Tile::tiles_bytes);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * M;

  const KeyBlock block(shape, Tile::keys);
  const KeyHalf half(shape, block.sequence, block.number);
  const auto rows_of = [&](const NearHeads<const T>& heads, int head, int first_row, int first) {
    return HeadRows<const T>{heads.at(first_row + first, head), heads.row, shape.length - first,
                             shape.dim, shape.vectors};
  };
  QueryTiles<Tile::keys, N, with_extras> tiles(shape, block, half.place);
  const auto load_stage = [&](int stage) {
    if (tiles.done()) return;
    const int token = shape.query_row(block.sequence, tiles.half());
    T* const q_tile = stages + stage * 2 * N * pitch;
    load_tile<N, D, Tile::threads>(q_tile, rows_of(operands.q, tiles.head(), token, tiles.first()));
    load_tile<N, D, Tile::threads>(q_tile + N * pitch,
                                   rows_of(operands.dy, tiles.head(), token, tiles.first()));
    const int own = static_cast<int>(threadIdx.x);
    if (own >= 2 * N) return;
    const long long row =
        (static_cast<long long>(block.sequence) * shape.heads + tiles.head()) * shape.held +
        tiles.half() * shape.length + tiles.first() + own % N;
    copy_async_4(sum_stages + stage * 2 * N + own,
                 (own < N ? operands.log_sums : operands.row_sums) + row,
                 tiles.first() + own % N < shape.length);
  };
  load_tile<Tile::keys, D, Tile::threads>(
      k_tile, rows_of(operands.k, block.head, half.first_row, block.first));
  load_tile<Tile::keys, D, Tile::threads>(
      v_tile, rows_of(operands.v, block.head, half.first_row, block.first));
  load_stage(0);
  copies_commit();

  const int key = block.first + warp_row + lane / 4;  // the lane's first key
  const LeftRows<T, M, D> keys(k_tile + warp_row * pitch);
  const LeftRows<T, M, D> values(v_tile + warp_row * pitch);
  constexpr int dk_columns = makes == Makes::values ? 1 : D / 8;
  constexpr int dv_columns = makes == Makes::keys ? 1 : D / 8;
  float dk[M][dk_columns][4], dv[M][dv_columns][4];
  for_elements(dk, [](float& x, int, int) { x = 0.0f; });
  for_elements(dv, [](float& x, int, int) { x = 0.0f; });
  for (int stage = 0; !tiles.done(); stage ^= 1) {
    copies_wait<0>();
    __syncthreads();  // this tile is there, and the one before is no longer needed
    const int query = tiles.first(), ahead = tiles.ahead(), head = tiles.head();
    const int query_half = tiles.half();
    tiles.advance();
    load_stage(stage ^ 1);
    copies_commit();
    const T* const q_tile = stages + stage * 2 * N * pitch;
    const float* const sums = sum_stages + stage * 2 * N + lane % 4 * 2;  // of two queries
    const bool visible = block.first + warp_row < shape.length &&
                         (!shape.causal || query + N - 1 + ahead >= block.first + warp_row);
    const bool whole = query + N <= shape.length &&
                       (!shape.causal || query + ahead >= block.first + warp_row + 16 * M - 1);
    if (!visible) continue;
    const KeptWeights kept(shape, extras, block.sequence, head, query_half);
    float s[M][N / 8][4];
    if (with_extras && operands.probabilities != nullptr) {
      const long long saved_row =
          (static_cast<long long>(block.sequence) * shape.heads + head) * shape.held;
      for_elements(s, [&](float& x, int row, int column) {
        const int i = query + lane % 4 * 2 + column, j = key + row;
        const bool valid = i < shape.length && j < shape.length;
        x = valid ? widened(operands.probabilities[(saved_row + i) * shape.held + j]) : 0.0f;
      });
    } else {
      multiply_rows<N>(s, keys, q_tile);
      if constexpr (with_extras) {
        cap_products(s, extras.cap);
        const Score score(shape, extras, block.sequence, head, query_half);
        for_elements(s, [&](float& x, int row, int column) {
          const int i = query + lane % 4 * 2 + column + ahead;
          x = fast_exp2(score(x, key + row - i, i + half.place) - sums[column]);
        });
      } else {
        for_elements(s, [&](float& x, int, int column) {
          x = fast_exp2(fmaf(x, shape.scale_base_2, -sums[column]));
        });
      }
      if (!whole)
        for_elements(s, [&](float& x, int row, int column) {
          const int i = query + lane % 4 * 2 + column;
          if (i >= shape.length || (shape.causal && key + row > i + ahead)) x = 0.0f;
        });
    }
    unsigned int left = 0;  // by dropout: a bit for each element
    if (with_extras && kept.any()) {
      static_assert(M * N / 2 <= 32);
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N / 8; ++n)
          left |= kept.down(query + 8 * n, block.first + warp_row + 16 * m, half.place)
                  << (m * N / 2 + 4 * n);
    }
    const auto drop = [&](float(&to)[M][N / 8][4], const float(&from)[M][N / 8][4]) {
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            to[m][n][i] =
                with_extras && kept.any()
                    ? kept.left(from[m][n][i], (left >> (m * N / 2 + 4 * n + i) & 1u) != 0)
                    : from[m][n][i];
    };
    if constexpr (makes != Makes::keys) {
      float weights[M][N / 8][4];
      drop(weights, s);
      weigh_rows<D, N>(dv, Weights<T, M, N>(weights), q_tile + N * pitch);
    }
    if constexpr (makes != Makes::values) {
      float ds[M][N / 8][4];
      multiply_rows<N>(ds, values, q_tile + N * pitch);
      drop(ds, ds);
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            ds[m][n][i] = s[m][n][i] * (ds[m][n][i] - sums[N + 8 * n + i % 2]);
      if (with_extras && extras.cap > 0.0f) {
        multiply_rows<N>(s, keys, q_tile);
        uncap_gradients(ds, s, extras.cap);
      }
      weigh_rows<D, N>(dk, Weights<T, M, N>(ds), q_tile);
    }
  }
  copies_wait<0>();
  __syncthreads();

  const int first = block.first + warp_row;
  if constexpr (makes != Makes::keys)
    store_rows<T, M, D>(dv, v_tile + warp_row * pitch,
                        {operands.dv.at(half.first_row + first, block.head), operands.dv.row,
                         shape.length - first, shape.dim, shape.vectors});
  if constexpr (makes != Makes::values) {
    for_elements(dk, [&](float& x, int, int) { x *= shape.scale; });
    store_rows<T, M, D>(dk, k_tile + warp_row * pitch,
                        {operands.dk.at(half.first_row + first, block.head), operands.dk.row,
                         shape.length - first, shape.dim, shape.vectors});
  }
}

}  // namespace

template <typename T>
void key_gradients(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                   const BackwardOperands<T>& operands) {
  const bool any = extras.any() || shape.documents != nullptr || operands.probabilities != nullptr;
  with_kernel<T>(shape.dim, any, [&](auto width, auto with_extras) {
    constexpr int D = decltype(width)::value;
    constexpr bool with = decltype(with_extras)::value;
    with_tile_size<KeyGradientTile<T, D, false>::shared_bytes>(k.device, [&](auto size) {
      constexpr bool small = decltype(size)::value;
      using Tile = KeyGradientTile<T, D, small>;
      const auto start = [&](auto kernel) {
        launch_tiles<Tile>(
            kernel, {tile_blocks(shape, shape.kv_heads, shape.sources * shape.halves, Tile::keys)},
            Tile::shared_bytes, k, shape, extras, operands);
      };
      if constexpr (D > 128) {
        start(attention_grad_keys<T, D, with, small, Makes::values>);
        start(attention_grad_keys<T, D, with, small, Makes::keys>);
      } else {
        start(attention_grad_keys<T, D, with, small, Makes::both>);
      }
    });
  });
}

template void key_gradients(const KernelCall&, const AttentionShape&, const ScoreExtras&,
                            const BackwardOperands<float>&);
template void key_gradients(const KernelCall&, const AttentionShape&, const ScoreExtras&,
                            const BackwardOperands<f16>&);
template void key_gradients(const KernelCall&, const AttentionShape&, const ScoreExtras&,
                            const BackwardOperands<bf16>&);

}  // namespace meshwright::exec::cuda
