// Kernels in which a warp takes a row of a matrix: its place is found once, then its columns are
// gone through, 16 bytes in a thread.
#pragma once

#include "exec/backends/cuda/kernels.h"
#include "exec/backends/cuda/launch.h"
#include "exec/backends/cuda/types.cuh"

namespace meshwright::cuda {

constexpr int warps_of_block = 8;

// F has `place(row)`, which every lane calls, and `columns<vector>(place, column)`.
template <int vector, typename F>
__global__ void __launch_bounds__(32 * warps_of_block)
    rows_kernel(F f, long long rows, long long width) {
  const long long row = static_cast<long long>(blockIdx.x) * warps_of_block + threadIdx.x / 32;
  if (row >= rows) return;
  const auto place = f.place(row);
#pragma unroll 4
  for (long long column = threadIdx.x % 32 * vector; column < width; column += 32 * vector)
    f.template columns<vector>(place, column);
}

template <int vector, typename F>
void for_each_row(const KernelCall& k, std::int64_t rows, std::int64_t width, F f) {
  launch(rows_kernel<vector, F>, {blocks_for(rows, warps_of_block)}, {32 * warps_of_block}, 0,
         k.stream, f, rows, width);
}

template <int vector, typename T>
__device__ inline void copy(const T* from, T* to) {
  *reinterpret_cast<Chunk<T, vector>*>(to) = *reinterpret_cast<const Chunk<T, vector>*>(from);
}

// Which token of which sequence a row is, as OpContext and the attributes have it.
struct TokenRows {
  long long sequence_length, first_row;
  int context_degree, context_rank;

  explicit TokenRows(const KernelCall& k)
      : sequence_length(k.attributes().sequence_length),
        first_row(k.context.first_row +
                  (k.attributes().sequence_parallel ? k.context.tensor_rank * whole_rows(k) : 0)),
        context_degree(k.attributes().context_degree),
        context_rank(k.context.context_rank) {}

  __device__ long long sequence(long long row) const { return (first_row + row) / sequence_length; }
  // Its place in the whole sequence.
  __device__ long long position(long long row) const {
    return context_position(context_degree, context_rank, sequence_length,
                            (first_row + row) % sequence_length);
  }

 private:
  static std::int64_t whole_rows(const KernelCall& k) {
    return k.context.whole_rows > 0 ? k.context.whole_rows : k.in_shape(0)[0];
  }
};

}  // namespace meshwright::cuda
