// Matrix products through OpenBLAS, or through Eigen in builds without OpenBLAS (gemm_eigen.cpp).
// They are split into pieces here rather than by OpenBLAS's threads: one pool of threads serves all
// kernels, and the pieces do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "exec/core/thread_pool.h"

namespace meshwright::exec::cpu {

void use_one_blas_thread();

// A factor of a matrix product. Matrices are row-major, and `row` is the elements from one stored
// row to the next.
template <typename T>
struct Factor {
  const T* data = nullptr;
  std::int64_t row = 0;
  bool transposed = false;
};

// A matrix product c[m,n] = alpha * op(a) * op(b) + beta * c, where op(a) is [m,k] and op(b) is
// [k,n]. op() transposes if the factor says so. Rows of c are c_row elements apart.
template <typename T>
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Factor<T> a, b;
  T* c = nullptr;
  std::int64_t c_row = 0;
  T alpha = 1;
  T beta = 0;  // with 0, c is not read, so that it may hold NaN
};

// Computes one matrix product on the calling thread.
void multiply(const Product<float>& product);
void multiply(const Product<double>& product);

// Computes one matrix product on all threads of the pool. If `row` (n values) is given, it is added
// to every row of c, and beta must be 0 or 1.
template <typename T>
void multiply(ThreadPool& pool, const Product<T>& product, const T* row = nullptr);

}  // namespace meshwright::exec::cpu
