#include "exec/backends/cuda/device/add_numbers.h"

#include <algorithm>

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/prelude.cuh"

namespace meshwright::exec::cuda {

namespace {

constexpr int threads = 256;

template <typename T>
__device__ T added(T a, T b) {
  T sum;
  narrow(widened(a) + widened(b), sum);
  return sum;
}
template <>
__device__ double added(double a, double b) {
  return a + b;
}

// Adds chunks of n elements, then the elements that are left over.
template <typename T, int n>
__global__ void add(T* to, const T* from, long long count) {
  const long long first = static_cast<long long>(blockIdx.x) * threads + threadIdx.x;
  const long long step = static_cast<long long>(gridDim.x) * threads;
  const long long chunks = count / n;
  for (long long i = first; i < chunks; i += step) {
    Chunk<T, n> sum = reinterpret_cast<const Chunk<T, n>*>(to)[i];
    const Chunk<T, n> more = reinterpret_cast<const Chunk<T, n>*>(from)[i];
#pragma unroll
    for (int j = 0; j < n; ++j) sum.element[j] = added(sum.element[j], more.element[j]);
    reinterpret_cast<Chunk<T, n>*>(to)[i] = sum;
  }
  for (long long i = chunks * n + first; i < count; i += step) to[i] = added(to[i], from[i]);
}

template <typename T>
void add_typed(void* to, const void* from, std::int64_t count, cudaStream_t stream) {
  constexpr int wide = 16 / sizeof(T);
  const bool aligned = (reinterpret_cast<std::uintptr_t>(to) % 16 == 0) &&
                       (reinterpret_cast<std::uintptr_t>(from) % 16 == 0);
  // Each thread adds one chunk, unless that takes more than most_blocks blocks, which are enough to
  // keep any GPU's memory busy. Then threads add several chunks.
  constexpr std::int64_t most_blocks = 4096;
  const std::int64_t work = aligned ? (count + wide - 1) / wide : count;
  const std::int64_t blocks = std::min((work + threads - 1) / threads, most_blocks);
  launch(aligned ? add<T, wide> : add<T, 1>, {static_cast<unsigned int>(blocks)}, {threads}, 0,
         stream, static_cast<T*>(to), static_cast<const T*>(from), static_cast<long long>(count));
}

}  // namespace

void add_numbers(void* to, const void* from, std::int64_t count, Dtype dtype, cudaStream_t stream) {
  switch (dtype) {
    case Dtype::f32:
      return add_typed<float>(to, from, count, stream);
    case Dtype::f64:
      return add_typed<double>(to, from, count, stream);
    case Dtype::f16:
      return add_typed<f16>(to, from, count, stream);
    case Dtype::bf16:
      return add_typed<bf16>(to, from, count, stream);
    default:
      throw RunError("numbers to be added on a device have 16, 32 or 64 bits, floating point");
  }
}

}  // namespace meshwright::exec::cuda
