// Kernels that make a matrix row by row, with one warp for each row. The warp first finds where the
// row comes from and goes to. Then each lane makes up to four chunks of neighbouring columns before
// it stores the first of them, so that several loads are in flight at once.
#pragma once

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Returns the n elements from `from` on. The address must be aligned as a Chunk of n elements is.
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

// Makes rows with an object f. Every lane of the row's warp calls f.place(row), whose result is
// passed to the other functions. f.make<n>(place, column) returns n elements of type F::Element,
// from `column` on, as a Chunk. f.at(place, column) returns the address at which they are stored.
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

// Finds the sequence of the micro-batch to which a row belongs, and the row's position in the
// sequence. Under sequence parallelism, the rows of a rank come after those of the ranks before it.
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
  // Returns the row's position in the whole sequence, even if this rank has only a part of the
  // sequence, as ranks of a context group do.
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
