// Operations that clear memory, sum the losses, and sum the squares of a gradient bucket.

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

constexpr int threads = 256;

// Returns the sum over all threads of the block. A kernel may call it only once, because nothing
// waits until the shared memory has been read.
__device__ inline double sum_of_block(double sum) {
  __shared__ double of_warp[threads / 32];
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < threads / 32; ++warp) sum += of_warp[warp];
  return sum;
}

template <typename T>
__global__ void __launch_bounds__(threads)
    add_all(const T* __restrict__ terms, long long count, double* __restrict__ to) {
  double sum = 0;
#pragma unroll 4
  for (long long i = threadIdx.x; i < count; i += threads) sum += static_cast<double>(terms[i]);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *to += sum;
}

void zero(const KernelCall& k) {
  for (std::size_t i = 0; i < k.call.outputs.size(); ++i)
    check(cudaMemsetAsync(k.out<char>(i), 0, k.call.outputs[i].bytes(), k.stream),
          "cudaMemsetAsync");
}

void sum_loss(const KernelCall& k) {
  launch(add_all<float>, {1}, {threads}, 0, k.stream, k.in<float>(0), k.in_shape(0).elements(),
         k.out<double>(0));
}

// Writes the sum of the squares of x in parts, one for each block. The number of blocks depends
// only on `count`, so that the sum has the same bits on every GPU.
template <typename T>
__global__ void __launch_bounds__(threads)
    add_squares(const T* __restrict__ x, long long count, double* __restrict__ of_block) {
  constexpr int vector = vector_of<T>;
  const long long vectors = count / vector;
  const long long first = static_cast<long long>(blockIdx.x) * threads + threadIdx.x;
  double sum = 0;
  float part[vector];
#pragma unroll 4
  for (long long i = first; i < vectors; i += static_cast<long long>(gridDim.x) * threads) {
    load<vector>(x + i * vector, part);
#pragma unroll
    for (int j = 0; j < vector; ++j)
      sum += static_cast<double>(part[j]) * static_cast<double>(part[j]);
  }
  if (first == 0) {
    for (long long i = vectors * vector; i < count; ++i) {
      const double rest = static_cast<double>(widened(x[i]));
      sum += rest * rest;
    }
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) of_block[blockIdx.x] = sum;
}

void sum_of_squares(const KernelCall& k) {
  const std::int64_t count = k.in_shape(0).elements();
  const unsigned int blocks = square_sum_blocks(count);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(add_squares<T>, {blocks}, {threads}, 0, k.stream, k.in<T>(0), count,
           k.workspace<double>());
  });
  launch(add_all<double>, {1}, {threads}, 0, k.stream, k.workspace<double>(), blocks,
         k.out<double>(0));
}

constexpr Row rows[] = {
    {Op::zero, zero},
    {Op::sum_loss, sum_loss},
    {Op::sum_of_squares, sum_of_squares},
};

}  // namespace

std::span<const Row> bookkeeping_rows() { return rows; }

}  // namespace meshwright::exec::cuda
