// Kernels that work row by row. A warp has a row of up to 1024 columns, and a block has a longer
// one. Neighbouring columns are moved together if the alignment of the rows allows it.
#pragma once

#include <cstdint>

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Numbers of threads of a row. A block has four rows with a warp each, or one row with 512 threads.
constexpr int warp_of_row = 32, block_of_row = 512, longest_row_of_warp = 1024;
template <int row_threads>
constexpr int rows_of_block = row_threads == warp_of_row ? 4 : 1;
template <int row_threads>
constexpr int threads_of_block = row_threads* rows_of_block<row_threads>;

// Returns the row of the calling thread. In the last block it may be past the last row.
template <int row_threads>
__device__ long long own_row() {
  return static_cast<long long>(blockIdx.x) * rows_of_block<row_threads> +
         threadIdx.x / row_threads;
}
template <int row_threads>
__device__ int place_in_row() {
  return static_cast<int>(threadIdx.x % row_threads);
}

template <int n>
struct Count {
  static constexpr int value = n;
};

// Calls visit(column, Count<n>) for the thread's columns of a row, for the n neighbours from
// `column` on at once. If columns are not moved `in_groups`, n is 1. If they are, the width must be
// a multiple of n.
template <int row_threads, int n, typename Visit>
__device__ void for_columns(int width, bool in_groups, const Visit& visit) {
  const int place = place_in_row<row_threads>();
  if (in_groups) {
    for (int c = place * n; c < width; c += row_threads * n) visit(c, Count<n>{});
  } else {
    for (int c = place; c < width; c += row_threads) visit(c, Count<1>{});
  }
}

// Returns the width of rows as an int, as kernels take it. An internal check fails if the width is
// 2^30 or more.
inline int width_of(std::int64_t columns) {
  MESHWRIGHT_CHECK(columns < (1 << 30), "columns are counted in 32 bits");
  return static_cast<int>(columns);
}

// Returns whether groups of n neighbours may be moved at once in an array with rows of `width`
// elements.
template <int n, typename T>
bool moves_groups(const T* array, std::int64_t width) {
  return width % n == 0 && reinterpret_cast<std::uintptr_t>(array) % (n * sizeof(T)) == 0;
}

// Returns the sum of x over the threads of a row. Every thread gets the same bits.
template <int row_threads>
__device__ float sum_over_row(float x) {
  float sum[1] = {x};
  add_over_row<row_threads>(sum);
  return sum[0];
}

// Calls start(Count<threads of a row>, blocks, threads of a block) with the sizes of a launch over
// `rows` rows of `width` columns.
template <typename Start>
void for_rows(std::int64_t rows, int width, const Start& start) {
  const auto with = [&](auto row_threads) {
    constexpr int of_row = decltype(row_threads)::value;
    start(row_threads, Shape3{blocks_for(rows, rows_of_block<of_row>)},
          Shape3{static_cast<unsigned int>(threads_of_block<of_row>)});
  };
  if (width <= longest_row_of_warp)
    with(Count<warp_of_row>{});
  else
    with(Count<block_of_row>{});
}

// Copies x to y and changes it by f on the way. f.apply(f.of_row(row), c, elements) changes, in
// place, the elements of a row from column c on.
template <int row_threads, typename F, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    map_rows_kernel(F f, const T* __restrict__ x, T* __restrict__ y, long long rows, int width,
                    bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;  // warps return as a whole
  const auto of_row = f.of_row(row);
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float elements[n];
    load<n>(x + row * width + c, elements);
    f.apply(of_row, c, elements);
    store<n>(y + row * width + c, elements);
  });
}

// Applies f to every row of x by map_rows_kernel, and writes output 0. x has the shape of the first
// operand, whose last dimension is a row. `f_moves_groups` is false if f can only take columns one
// by one.
template <typename F, typename T>
void map_rows(const KernelCall& k, const F& f, const T* x, bool f_moves_groups = true) {
  const int width = width_of(k.in_shape(0)[-1]);
  const std::int64_t rows = k.in_shape(0).elements() / width;
  const bool in_groups = f_moves_groups && moves_groups<vector_of<T>>(x, width) &&
                         moves_groups<vector_of<T>>(k.out<T>(0), width);
  for_rows(rows, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
    launch(map_rows_kernel<decltype(row_threads)::value, F, T>, blocks, threads, 0, k.stream, f, x,
           k.out<T>(0), rows, width, in_groups);
  });
}

}  // namespace meshwright::exec::cuda
