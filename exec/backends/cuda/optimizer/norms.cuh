// Sums squared norms of parameters and of their updates over a block of threads, and over all
// blocks.
#pragma once

#include "exec/backends/cuda/optimizer/elements.cuh"

namespace meshwright::exec::cuda {

struct SquaredNorms {
  double weights, update;
};

// Returns in thread 0 the sum over the threads of the block. The order of additions depends only on
// `threads`.
inline __device__ SquaredNorms add_over_block(SquaredNorms own) {
  __shared__ SquaredNorms of_thread[threads];
  of_thread[threadIdx.x] = own;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= half) continue;
    of_thread[threadIdx.x].weights += of_thread[threadIdx.x + half].weights;
    of_thread[threadIdx.x].update += of_thread[threadIdx.x + half].update;
  }
  return of_thread[0];
}

// Adds the partial sums of all blocks to the parameters' norms. Each block has one segment. The
// block of a parameter's first segment adds the partial sums of all of the parameter's counted
// segments, and the other blocks do nothing.
static __global__ void __launch_bounds__(threads)
    add_norms_kernel(const UpdateScalars* scalars, DeviceSegments segments,
                     const SquaredNorms* partial) {
  if (scalars->updates == 0) return;
  const DeviceSegment& first = segments.data[blockIdx.x];
  if (first.norms == nullptr || first.is_first == 0) return;
  SquaredNorms sum{0, 0};
  for (int s = blockIdx.x; s >= 0; s = segments.data[s].next_of_parameter) {
    if (segments.data[s].counted == 0) continue;
    const std::int64_t end =
        s + 1 < segments.count ? segments.data[s + 1].first_chunk : segments.chunks;
    for (std::int64_t c = segments.data[s].first_chunk + threadIdx.x; c < end; c += threads) {
      sum.weights += partial[c].weights;
      sum.update += partial[c].update;
    }
  }
  sum = add_over_block(sum);
  if (threadIdx.x != 0) return;
  first.norms[0] += sum.weights;
  first.norms[1] += sum.update;
}

}  // namespace meshwright::exec::cuda
