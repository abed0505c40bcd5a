#include "exec/backends/cuda/products/fp8.h"

#include "exec/backends/cuda/device/eight_bits.cuh"
#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/prelude.cuh"

namespace meshwright::cuda {

namespace {

constexpr int threads = 256, vector = 8;  // bf16 numbers of 16 bytes

// Magnitudes compare as their bits do, NaN above all others: the order of blocks does not matter.
__global__ void __launch_bounds__(threads)
    largest_of(const bf16* matrix, unsigned int* largest, long long count) {
  unsigned int own = 0;
  const long long step = static_cast<long long>(gridDim.x) * threads * vector;
  for (long long i = (static_cast<long long>(blockIdx.x) * threads + threadIdx.x) * vector;
       i < count; i += step) {
    float x[vector];
    load<vector>(matrix + i, x);
    for (int j = 0; j < vector; ++j) own = max(own, __float_as_uint(x[j]) & 0x7fffffffu);
  }
  for (int distance = 16; distance > 0; distance /= 2)
    own = max(own, __shfl_xor_sync(0xffffffffu, own, distance));
  if (threadIdx.x % 32 == 0) atomicMax(largest, own);
}

template <Dtype format>
__device__ void set_scale(float largest, float* scale) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = 1.0f / factor_of<format>(largest);
}

template <Dtype format>
__global__ void __launch_bounds__(threads)
    round_rows(const bf16* matrix, unsigned char* rounded, const float* largest, float* scale,
               long long count) {
  const float factor = factor_of<format>(*largest);
  set_scale<format>(*largest, scale);
  const long long i = (static_cast<long long>(blockIdx.x) * threads + threadIdx.x) * vector;
  if (i >= count) return;
  float x[vector];
  load<vector>(matrix + i, x);
  Chunk<unsigned char, vector> bytes;
  for (int j = 0; j < vector; ++j) bytes.element[j] = fp8_of<format>(x[j] * factor);
  *reinterpret_cast<Chunk<unsigned char, vector>*>(rounded + i) = bytes;
}

// A block turns a square of `side` rows and columns. 16 bytes of a row of the result are moved at
// once, and the padding spreads a column over the banks.
constexpr int side = 64, chunk = 16, padded = side + chunk;

template <Dtype format>
__global__ void __launch_bounds__(threads)
    round_columns(const bf16* matrix, unsigned char* rounded, const float* largest, float* scale,
                  long long rows, long long columns, long long squares_across) {
  __shared__ __align__(16) unsigned char square[side * padded];
  const float factor = factor_of<format>(*largest);
  set_scale<format>(*largest, scale);
  const long long row0 = blockIdx.x / squares_across * side;
  const long long column0 = blockIdx.x % squares_across * side;
  constexpr int across = side / vector;
  for (int part = threadIdx.x; part < side * across; part += threads) {
    const int row = part / across, column = part % across * vector;
    if (row0 + row >= rows || column0 + column >= columns) continue;
    float x[vector];
    load<vector>(matrix + (row0 + row) * columns + column0 + column, x);
    for (int j = 0; j < vector; ++j)
      square[(column + j) * padded + row] = fp8_of<format>(x[j] * factor);
  }
  __syncthreads();
  for (int part = threadIdx.x; part < side * (side / chunk); part += threads) {
    const int column = part / (side / chunk), row = part % (side / chunk) * chunk;
    if (row0 + row >= rows || column0 + column >= columns) continue;
    using Bytes = Chunk<unsigned char, chunk>;
    *reinterpret_cast<Bytes*>(rounded + (column0 + column) * rows + row0 + row) =
        *reinterpret_cast<const Bytes*>(square + column * padded + row);
  }
}

template <Dtype format>
void issue(const Fp8Factor& f, cudaStream_t stream) {
  const auto* matrix = static_cast<const bf16*>(f.matrix);
  const std::int64_t count = f.rows * f.columns;
  if (!f.transposes) {
    launch(round_rows<format>, {blocks_for(count, threads * vector)}, {threads}, 0, stream, matrix,
           f.rounded, f.largest, f.scale, static_cast<long long>(count));
    return;
  }
  const std::int64_t across = (f.columns + side - 1) / side, down = (f.rows + side - 1) / side;
  launch(round_columns<format>, {blocks_for(across * down, 1)}, {threads}, 0, stream, matrix,
         f.rounded, f.largest, f.scale, static_cast<long long>(f.rows),
         static_cast<long long>(f.columns), static_cast<long long>(across));
}

}  // namespace

void find_largest(const Fp8Factor& f, cudaStream_t stream) {
  const std::int64_t count = f.rows * f.columns;
  check(cudaMemsetAsync(f.largest, 0, sizeof(float), stream), "cudaMemsetAsync");
  constexpr std::int64_t of_thread = 4 * vector, most_blocks = 1024;
  const std::int64_t wanted = (count + threads * of_thread - 1) / (threads * of_thread);
  const auto blocks = static_cast<unsigned int>(wanted < most_blocks ? wanted : most_blocks);
  launch(largest_of, {blocks}, {threads}, 0, stream, static_cast<const bf16*>(f.matrix),
         reinterpret_cast<unsigned int*>(f.largest), static_cast<long long>(count));
}

void round_by_largest(const Fp8Factor& factor, cudaStream_t stream) {
  if (factor.format == Dtype::e4m3)
    issue<Dtype::e4m3>(factor, stream);
  else
    issue<Dtype::e5m2>(factor, stream);
}

}  // namespace meshwright::cuda
