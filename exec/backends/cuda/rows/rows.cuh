// Kernels in which a warp has a row of a matrix. The row's place is found once. Then its columns
// are moved, 16 bytes in a thread, with several of these in flight at once.
#pragma once

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Returns n neighbouring elements from `from` on, which must be aligned to n elements.
template <int n, typename T>
__device__ inline Chunk<T, n> chunk_at(const T* from) {
  return *reinterpret_cast<const Chunk<T, n>*>(from);
}
template <typename T, int n>
__device__ inline Chunk<T, n> chunk_of(const float (&x)[n]) {
  Chunk<T, n> chunk;
#pragma unroll
  for (int j = 0; j < n; ++j) narrow(x[j], chunk.element[j]);
  return chunk;
}

constexpr int warps_of_block = 8;

// Makes rows by an object f. F::Element is the type of the result, f.place(row), which every lane
// calls, finds the row, f.make<n>(place, column) returns the Chunk of n columns, and f.at(place,
// column) returns where it is stored.
template <int vector, typename F>
__global__ void __launch_bounds__(32 * warps_of_block)
    rows_kernel(F f, long long rows, long long width) {
  constexpr int at_once = 4, step = 32 * vector;
  const long long row = static_cast<long long>(blockIdx.x) * warps_of_block + threadIdx.x / 32;
  if (row >= rows) return;
  const auto place = f.place(row);
  for (long long first = threadIdx.x % 32 * vector; first < width; first += at_once * step) {
    Chunk<typename F::Element, vector> made[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (first + i * step < width) made[i] = f.template make<vector>(place, first + i * step);
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (first + i * step < width)
        *reinterpret_cast<Chunk<typename F::Element, vector>*>(f.at(place, first + i * step)) =
            made[i];
  }
}

template <int vector, typename F>
void for_each_row(const KernelCall& k, std::int64_t rows, std::int64_t width, F f) {
  launch(rows_kernel<vector, F>, {blocks_for(rows, warps_of_block)}, {32 * warps_of_block}, 0,
         k.stream, f, rows, width);
}

// Finds the sequence to which a row belongs and the row's position in it. Both follow from
// OpContext and the attributes, and under sequence parallelism also from the rows of the first
// input.
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
  // Returns the row's place in the whole sequence, of which a context group's ranks have parts.
  __device__ long long position(long long row) const {
    return context_position(context_degree, context_rank, sequence_length,
                            (first_row + row) % sequence_length);
  }

 private:
  static std::int64_t whole_rows(const KernelCall& k) {
    return k.context.whole_rows > 0 ? k.context.whole_rows : k.in_shape(0)[0];
  }
};

}  // namespace meshwright::exec::cuda
