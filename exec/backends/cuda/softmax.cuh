// The maximum of numbers and the sum of their exponentials in one pass over them: where a larger
// number comes, what was summed is scaled down (Milakov and Gimelshein 2018).
#pragma once

#include <cfloat>

#include "exec/backends/cuda/wide_rows.cuh"

namespace meshwright::cuda {

struct ExpSum {
  float maximum = -FLT_MAX;
  float sum = 0;  // of exp(x - maximum)
};

// Numbers that are -infinity, as masked ones, add nothing.
template <int n>
__device__ void add(ExpSum& to, const float (&x)[n]) {
  float maximum = to.maximum;
#pragma unroll
  for (int j = 0; j < n; ++j) maximum = fmaxf(maximum, x[j]);
  if (maximum > to.maximum) {
    to.sum *= expf(to.maximum - maximum);
    to.maximum = maximum;
  }
#pragma unroll
  for (int j = 0; j < n; ++j) to.sum += expf(x[j] - to.maximum);
}

__device__ inline ExpSum both(const ExpSum& a, const ExpSum& b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  return {maximum, a.sum * expf(a.maximum - maximum) + b.sum * expf(b.maximum - maximum)};
}

// Over the threads of a row; every one gets the same bits.
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
    __syncthreads();  // what was here before has been read
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

// Of columns [0, visible) of a row.
template <int row_threads, int n, typename T>
__device__ ExpSum exp_sum_of_row(const T* row, int visible, int width, bool in_groups) {
  ExpSum own;
  for_columns<row_threads, n>(width, in_groups, [&](int c, auto count) {
    constexpr int of_group = decltype(count)::value;
    float x[of_group];
    load<of_group>(row + c, x);
#pragma unroll
    for (int j = 0; j < of_group; ++j)
      if (c + j >= visible) x[j] = -INFINITY;
    add(own, x);
  });
  return both_over_row<row_threads>(own);
}

}  // namespace meshwright::cuda
