// Reductions over one row in vector lanes. The compiler fixes the order of additions, so results do
// not depend on the number of threads.
#pragma once

#include <cstdint>
#include <limits>

#include "exec/backends/cpu/math.h"

namespace meshwright::exec::cpu {

// Returns the largest element of row[0, n), or -infinity if n is 0.
template <typename T>
T maximum_of(const T* row, std::int64_t n) {
  T maximum = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : maximum)
  for (std::int64_t i = 0; i < n; ++i) maximum = row[i] > maximum ? row[i] : maximum;
  return maximum;
}

// Returns the sum over i of exp(row[i] - shift).
template <typename T>
T sum_of_exp(const T* row, std::int64_t n, T shift) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += exp_of(row[i] - shift);
  return sum;
}

template <typename T>
T dot(const T* a, const T* b, std::int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace meshwright::exec::cpu
