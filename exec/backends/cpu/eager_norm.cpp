// RMSNorm as an eager framework computes it: a mean of squares, its inverse root, and two products.
#include <cmath>

#include "exec/backends/cpu/column_sum.h"
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/reduce.h"
#include "exec/backends/cpu/tables.h"

namespace meshwright::exec::cpu {

template <typename T>
void mean_of_squares(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  for_each_row(k, rows, h,
               [=](std::int64_t r) { y[r] = dot(x + r * h, x + r * h, h) / static_cast<T>(h); });
}

template <typename T>
void mean_of_squares_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* dy = k.in<T>(1);
  T* dx = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T factor = T(2) * dy[r] / static_cast<T>(h);
#pragma omp simd
    for (std::int64_t c = r * h; c < (r + 1) * h; ++c) dx[c] = factor * x[c];
  });
}

template <typename T>
void inverse_root(const KernelCall& k) {
  const T epsilon = static_cast<T>(k.attributes().epsilon);
  map<T>(k, [=](T x) { return T(1) / std::sqrt(x + epsilon); });
}

template <typename T>
void inverse_root_grad(const KernelCall& k) {
  map_two<T>(k, [](T y, T dy) { return T(-0.5) * y * y * y * dy; });
}

template <typename T>
void scale_rows(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* factors = k.in<T>(1);
  T* y = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T factor = factors[r];
#pragma omp simd
    for (std::int64_t c = r * h; c < (r + 1) * h; ++c) y[c] = factor * x[c];
  });
}

template <typename T>
void row_dots(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* dy = k.in<T>(1);
  T* dots = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) { dots[r] = dot(x + r * h, dy + r * h, h); });
}

template <typename T>
void scale_columns(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  const T offset = k.attributes().one_plus_weight ? T(1) : T(0);
  T* y = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
#pragma omp simd
    for (std::int64_t c = 0; c < h; ++c) y[r * h + c] = x[r * h + c] * (offset + weight[c]);
  });
}

template <typename T>
void scale_columns_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* dy = k.in<T>(1);
  add_column_sums<T>(k, rows, h, 0,
                     [=](std::int64_t r, std::int64_t c) { return dy[r * h + c] * x[r * h + c]; });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(mean_of_squares), MESHWRIGHT_CPU_ROW(mean_of_squares_grad),
    MESHWRIGHT_CPU_ROW(inverse_root),    MESHWRIGHT_CPU_ROW(inverse_root_grad),
    MESHWRIGHT_CPU_ROW(scale_rows),      MESHWRIGHT_CPU_ROW(row_dots),
    MESHWRIGHT_CPU_ROW(scale_columns),   MESHWRIGHT_CPU_ROW(scale_columns_grad),
};

std::span<const Row> eager_norm_rows() { return rows; }

}  // namespace meshwright::exec::cpu
