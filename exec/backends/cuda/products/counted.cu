#include "exec/backends/cuda/products/counted.h"

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "models/program/graph/attributes.h"

namespace meshwright::exec::cuda {

namespace {

// A block computes a tile of `tile` rows and columns, in steps of `depth` terms. Each of its
// threads has `own` by `own` elements.
constexpr int tile = 64, depth = 16, own = 4, across = tile / own, tile_threads = across * across;

// Groups of rows. Each part has `of_part` groups, which follow one another from the part's first
// row on.
struct Groups {
  int count, of_part, matrices;  // group g is multiplied by matrix g % `matrices`
  long long rows_of_part;
  const int *rows, *begins;
};

__global__ void begins_kernel(int* begins, Groups groups) {
  long long next = 0;
  for (int g = 0; g < groups.count; ++g) {
    if (g % groups.of_part == 0) next = g / groups.of_part * groups.rows_of_part;
    begins[g] = static_cast<int>(next);
    next += groups.rows[g];
  }
}

struct Tiles {
  float a[depth][tile + 1], b[depth][tile + 1];
};

// Adds the products of one step, `depth` terms, to the elements of the calling thread.
__device__ inline void multiply_step(const Tiles& tiles, float (&sum)[own][own]) {
  const int row = static_cast<int>(threadIdx.x) / across * own;
  const int column = static_cast<int>(threadIdx.x) % across * own;
#pragma unroll
  for (int k = 0; k < depth; ++k)
#pragma unroll
    for (int i = 0; i < own; ++i)
#pragma unroll
      for (int j = 0; j < own; ++j)
        sum[i][j] = fmaf(tiles.a[k][row + i], tiles.b[k][column + j], sum[i][j]);
}

// Computes y[rows of g, n] = x[rows of g, k] times the matrix of group g, which is stored as [n,
// k], or as [k, n] with `by_rows`.
template <typename T>
__global__ void __launch_bounds__(tile_threads)
    rows_kernel(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y, Groups groups,
                int n, int k, bool by_rows) {
  __shared__ Tiles tiles;
  __shared__ int found[2];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    int left = static_cast<int>(blockIdx.x), g = 0;
    for (; g < groups.count; ++g) {
      const int of_group = (groups.rows[g] + tile - 1) / tile;
      if (left < of_group) break;
      left -= of_group;
    }
    found[0] = g;
    found[1] = left * tile;
  }
  __syncthreads();
  const int g = found[0], first = found[1];
  if (g == groups.count) return;  // the whole block returns
  const int rows = min(tile, groups.rows[g] - first);
  const int column0 = static_cast<int>(blockIdx.y) * tile;
  const long long row0 = static_cast<long long>(groups.begins[g]) + first;
  const T* const matrix = w + static_cast<long long>(g % groups.matrices) * n * k;
  float sum[own][own] = {};
  for (int k0 = 0; k0 < k; k0 += depth) {
    for (int i = thread; i < tile * depth; i += tile_threads) {
      const int r = i / depth, c = i % depth;
      tiles.a[c][r] = r < rows && k0 + c < k ? widened(x[(row0 + r) * k + k0 + c]) : 0.0f;
      const int column = column0 + (by_rows ? i % tile : r), term = k0 + (by_rows ? i / tile : c);
      const bool inside = column < n && term < k;
      const long long place = by_rows ? static_cast<long long>(term) * n + column
                                      : static_cast<long long>(column) * k + term;
      tiles.b[term - k0][column - column0] = inside ? widened(matrix[place]) : 0.0f;
    }
    __syncthreads();
    multiply_step(tiles, sum);
    __syncthreads();
  }
  const int row = thread / across * own, column = column0 + thread % across * own;
#pragma unroll
  for (int i = 0; i < own; ++i)
#pragma unroll
    for (int j = 0; j < own; ++j)
      if (row + i < rows && column + j < n) narrow(sum[i][j], y[(row0 + row + i) * n + column + j]);
}

// Adds dy^T x, over the rows of all groups that have matrix e, to dw[e, m, n], or stores it there
// if `overwrites` is set. dy is [rows, m] and x is [rows, n].
template <typename T, typename Sum>
__global__ void __launch_bounds__(tile_threads)
    weights_kernel(const T* __restrict__ dy, const T* __restrict__ x, Sum* __restrict__ dw,
                   Groups groups, int m, int n, bool overwrites) {
  __shared__ Tiles tiles;
  const int thread = static_cast<int>(threadIdx.x), matrix = static_cast<int>(blockIdx.z);
  const int row0 = static_cast<int>(blockIdx.y) * tile;
  const int column0 = static_cast<int>(blockIdx.x) * tile;
  float sum[own][own] = {};
  for (int g = matrix; g < groups.count; g += groups.matrices)
    for (int r0 = 0; r0 < groups.rows[g]; r0 += depth) {
      for (int i = thread; i < tile * depth; i += tile_threads) {
        const int r = i / tile, c = i % tile;
        const bool inside = r0 + r < groups.rows[g];
        const long long token = static_cast<long long>(groups.begins[g]) + r0 + r;
        tiles.a[r][c] = inside && row0 + c < m ? widened(dy[token * m + row0 + c]) : 0.0f;
        tiles.b[r][c] = inside && column0 + c < n ? widened(x[token * n + column0 + c]) : 0.0f;
      }
      __syncthreads();
      multiply_step(tiles, sum);
      __syncthreads();
    }
  const int row = row0 + thread / across * own, column = column0 + thread % across * own;
#pragma unroll
  for (int i = 0; i < own; ++i)
#pragma unroll
    for (int j = 0; j < own; ++j) {
      if (row + i >= m || column + j >= n) continue;
      Sum& to = dw[(static_cast<long long>(matrix) * m + row + i) * n + column + j];
      narrow(overwrites ? sum[i][j] : widened(to) + sum[i][j], to);
    }
}

template <typename T>
__global__ void __launch_bounds__(tile_threads) clear_kernel(T* y, long long elements) {
  const long long i = static_cast<long long>(blockIdx.x) * tile_threads + threadIdx.x;
  if (i < elements) narrow(0.0f, y[i]);
}

}  // namespace

void run_counted_experts(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const bool of_weights = k.call.op == Op::expert_linear_grad_weight;
  const Shape& matrices = of_weights ? k.out_shape(0) : k.in_shape(1);
  Groups groups{
      a.experts,    a.experts / a.expert_parts, static_cast<int>(matrices[0]), a.expert_rows,
      k.in<int>(2), k.workspace<int>()};
  launch(begins_kernel, {1}, {1}, 0, k.stream, k.workspace<int>(), groups);
  const auto tiles_of = [](std::int64_t size) { return blocks_for(size, tile); };
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    if (of_weights) {
      const int m = static_cast<int>(matrices[1]), n = static_cast<int>(matrices[2]);
      with_type(k.call.outputs[0].dtype, [&]<typename Sum>(Sum) {
        launch(weights_kernel<T, Sum>,
               {tiles_of(n), tiles_of(m), static_cast<unsigned int>(groups.matrices)},
               {tile_threads}, 0, k.stream, k.in<T>(1), k.in<T>(0), k.out<Sum>(0), groups, m, n,
               k.call.overwrites_output(0));
      });
      return;
    }
    const int inner = static_cast<int>(k.in_shape(0)[1]), n = static_cast<int>(k.out_shape(0)[1]);
    const long long elements = k.out_shape(0).elements();
    launch(clear_kernel<T>, {blocks_for(elements, tile_threads)}, {tile_threads}, 0, k.stream,
           k.out<T>(0), elements);
    // The groups together have at most this many tiles: those that all rows fill, and one partly
    // filled tile for each group.
    const std::int64_t row_tiles = k.in_shape(0)[0] / tile + a.experts;
    launch(rows_kernel<T>, {blocks_for(row_tiles, 1), tiles_of(n)}, {tile_threads}, 0, k.stream,
           k.in<T>(0), k.in<T>(1), k.out<T>(0), groups, n, inner,
           k.call.op == Op::expert_linear_grad_input);
  });
}

}  // namespace meshwright::exec::cuda
