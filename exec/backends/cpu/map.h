// Loops over the elements of tensors.
#pragma once

#include "exec/backends/cpu/kernels.h"

namespace meshwright::exec::cpu {

// Computes y = f(x) for every element of the first input, on the pool's threads.
template <typename T, typename Function>
void map(const KernelCall& k, Function f) {
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  parallel_for(k.pool, k.in_shape(0).elements(), elements_per_piece,
               [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                 for (std::int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
               });
}

// Computes y = f(a, b) for every element of the first two inputs, on the pool's threads.
template <typename T, typename Function>
void map_two(const KernelCall& k, Function f) {
  const T* a = k.in<T>(0);
  const T* b = k.in<T>(1);
  T* y = k.out<T>(0);
  parallel_for(k.pool, k.in_shape(0).elements(), elements_per_piece,
               [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                 for (std::int64_t i = begin; i < end; ++i) y[i] = f(a[i], b[i]);
               });
}

// Calls visit(r) for each of `rows` rows on the pool's threads. `width`, the elements of a row,
// sets how many rows one piece of work has.
template <typename Visit>
void for_each_row(const KernelCall& k, std::int64_t rows, std::int64_t width, const Visit& visit) {
  parallel_for(k.pool, rows, rows_per_piece(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) visit(r);
  });
}

// Adds the second input, which is one row, to each row of the first.
template <typename T>
void add_to_each_row(const KernelCall& k) {
  const std::int64_t width = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* row = k.in<T>(1);
  T* y = k.out<T>(0);
  for_each_row(k, k.in_shape(0)[0], width, [=](std::int64_t r) {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) y[r * width + c] = x[r * width + c] + row[c];
  });
}

}  // namespace meshwright::exec::cpu
