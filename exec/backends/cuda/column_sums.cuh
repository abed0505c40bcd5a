// Sums over the rows of a matrix, column by column, in an order that depends on its shape alone:
// strips of rows first, then the strips in order.
#pragma once

#include <algorithm>

#include "exec/backends/cuda/rows.cuh"

namespace meshwright::cuda {

// Of a block: each lane has neighbouring columns, each warp every 8th row of the strip.
constexpr int strip_warps = 8;

inline std::int64_t strips_of(std::int64_t rows) {
  constexpr std::int64_t fewest_rows = 64, most_strips = 256;
  return std::clamp<std::int64_t>((rows + fewest_rows - 1) / fewest_rows, 1, most_strips);
}
inline std::int64_t column_sums_workspace(std::int64_t rows, std::int64_t columns) {
  return strips_of(rows) * columns * static_cast<std::int64_t>(sizeof(float));
}

// `term.get(row, column, x)` sets x to what n neighbours in a row add.
template <int n, typename Term>
__global__ void __launch_bounds__(32 * strip_warps)
    strips_kernel(Term term, float* __restrict__ partial, long long rows, int width,
                  long long rows_per_strip) {
  __shared__ float of_warp[strip_warps][n][32];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int column = (static_cast<int>(blockIdx.x) * 32 + lane) * n;
  const long long begin = blockIdx.y * rows_per_strip;
  const long long end = min(begin + rows_per_strip, rows);
  float sum[n] = {};
  if (column < width)
    for (long long row = begin + warp; row < end; row += strip_warps) {
      float x[n];
      term.get(row, column, x);
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] += x[j];
    }
#pragma unroll
  for (int j = 0; j < n; ++j) of_warp[warp][j][lane] = sum[j];
  __syncthreads();
  if (warp != 0 || column >= width) return;
#pragma unroll
  for (int j = 0; j < n; ++j) {
    float of_strip = 0;
#pragma unroll
    for (int w = 0; w < strip_warps; ++w) of_strip += of_warp[w][j][lane];
    partial[static_cast<long long>(blockIdx.y) * width + column + j] = of_strip;
  }
}

static __global__ void __launch_bounds__(256)
    add_strips_kernel(const float* __restrict__ partial, float* __restrict__ sums, int strips,
                      int width) {
  const int column = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (column >= width) return;
  float sum = 0;
  for (int s = 0; s < strips; ++s) sum += partial[static_cast<long long>(s) * width + column];
  sums[column] += sum;
}

// sums[c] += the sum over rows of the terms; the workspace holds column_sums_workspace.
template <int n, typename Term>
void add_column_sums(const KernelCall& k, const Term& term, std::int64_t rows, int width,
                     bool in_groups, float* sums) {
  const std::int64_t strips = strips_of(rows), per_strip = (rows + strips - 1) / strips;
  const auto with = [&](auto count) {
    constexpr int of_lane = decltype(count)::value;
    launch(strips_kernel<of_lane, Term>,
           {blocks_for(width, 32 * of_lane), static_cast<unsigned int>(strips)}, {32 * strip_warps},
           0, k.stream, term, k.workspace<float>(), rows, width, per_strip);
  };
  in_groups ? with(Count<n>{}) : with(Count<1>{});
  launch(add_strips_kernel, {blocks_for(width, 256)}, {256}, 0, k.stream, k.workspace<float>(),
         sums, static_cast<int>(strips), width);
}

}  // namespace meshwright::cuda
