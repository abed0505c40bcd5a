// Matrix products through OpenBLAS, cut into pieces here rather than by its threads: one pool of
// threads serves all kernels, and the pieces do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "exec/core/thread_pool.h"

namespace meshwright::cpu {

void use_one_blas_thread();

// c[m,n] = alpha * op(a) * op(b) + beta * c, all row-major with the given row lengths; op(a) is
// [m,k], op(b) is [k,n].
template <typename T>
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t a_row = 0;
  bool transpose_a = false;
  const T* b = nullptr;
  std::int64_t b_row = 0;
  bool transpose_b = false;
  T* c = nullptr;
  std::int64_t c_row = 0;
  T alpha = 1;
  T beta = 0;  // 0: what c held does not matter, not even a NaN
};

// Multiplies on the calling thread.
void multiply(const Product<float>& product);
void multiply(const Product<double>& product);

// Multiplies on all threads of the pool. If `row` (n values) is given, it is added to every row of
// c, and beta must be 0 or 1.
template <typename T>
void multiply(ThreadPool& pool, const Product<T>& product, const T* row = nullptr);

}  // namespace meshwright::cpu
