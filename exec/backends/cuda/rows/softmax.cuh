// Computes the maximum of numbers and the sum of their exponentials relative to it, in one pass.
// When a larger number comes, the sum so far is scaled down (Milakov and Gimelshein 2018).
#pragma once

#include <cfloat>

#include "exec/backends/cuda/rows/wide_rows.cuh"

namespace meshwright::exec::cuda {

struct ExpSum {
  float maximum = -FLT_MAX;
  float sum = 0;  // of exp(x - maximum)
};

// Returns exp(x) for x <= 0 by the fast function. Its error in units in the last place grows with
// |x|, but the larger |x| is, the less the result matters in a sum that contains exp(0).
__device__ inline float exp_below_0(float x) { return __expf(x); }

// Adds n numbers to a maximum and sum. Numbers that are -infinity, such as masked ones, add
// nothing.
template <int n>
__device__ void add(ExpSum& to, const float (&x)[n]) {
  float maximum = to.maximum;
#pragma unroll
  for (int j = 0; j < n; ++j) maximum = fmaxf(maximum, x[j]);
  if (maximum > to.maximum) {
    to.sum *= exp_below_0(to.maximum - maximum);
    to.maximum = maximum;
  }
#pragma unroll
  for (int j = 0; j < n; ++j) to.sum += exp_below_0(x[j] - to.maximum);
}

__device__ inline ExpSum both(const ExpSum& a, const ExpSum& b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  return {maximum,
          a.sum * exp_below_0(a.maximum - maximum) + b.sum * exp_below_0(b.maximum - maximum)};
}

// Combines the maximum and the sum of each thread of a row. Every thread of the row gets the same
// bits.
template <int row_threads>
__device__ ExpSum both_over_row(ExpSum own) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    ExpSum other;
    other.maximum = __shfl_down_sync(0xffffffffu, own.maximum, distance);
    other.sum = __shfl_down_sync(0xffffffffu, own.sum, distance);
    own = both(own, other);
  }
  if constexpr (row_threads == 32) {
    own.maximum = __shfl_sync(0xffffffffu, own.maximum, 0);
    own.sum = __shfl_sync(0xffffffffu, own.sum, 0);
  } else {
    constexpr int warps = row_threads / 32;
    __shared__ float maximum[warps], sum[warps];
    __syncthreads();  // all threads have read earlier results
    if (threadIdx.x % 32 == 0) {
      maximum[threadIdx.x / 32] = own.maximum;
      sum[threadIdx.x / 32] = own.sum;
    }
    __syncthreads();
    own = {maximum[0], sum[0]};
    for (int warp = 1; warp < warps; ++warp) own = both(own, {maximum[warp], sum[warp]});
  }
  return own;
}

// Returns the maximum and the sum for the calling thread's columns below `visible`. It reads
// `groups` groups of n neighbours at once, so that enough bytes are in flight. Calls keep(column,
// chunk) with each group that it has read, also with those beyond `visible`.
template <int row_threads, int n, int groups, typename T, typename Keep>
__device__ ExpSum exp_sum_of_groups(const T* row, int visible, int width, const Keep& keep) {
  ExpSum own;
  for (int c = place_in_row<row_threads>() * n; c < width; c += groups * row_threads * n) {
    Chunk<T, n> chunks[groups] = {};
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      const int column = c + g * row_threads * n;
      if (column < width) chunks[g] = *reinterpret_cast<const Chunk<T, n>*>(row + column);
    }
    float x[groups * n];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      const int column = c + g * row_threads * n;
      if (column < width) keep(column, chunks[g]);
#pragma unroll
      for (int j = 0; j < n; ++j)
        x[g * n + j] = column + j < visible ? widened(chunks[g].element[j]) : -INFINITY;
    }
    add(own, x);
  }
  return own;
}

// Returns the maximum and the sum for columns [0, visible) of a row, to all threads of the row.
template <int row_threads, int n, typename T>
__device__ ExpSum exp_sum_of_row(const T* row, int visible, int width, bool in_groups) {
  const auto nothing = [](int, const auto&) {};
  const ExpSum own = in_groups ? exp_sum_of_groups<row_threads, n, 2>(row, visible, width, nothing)
                               : exp_sum_of_groups<row_threads, 1, 4>(row, visible, width, nothing);
  return both_over_row<row_threads>(own);
}

}  // namespace meshwright::exec::cuda
