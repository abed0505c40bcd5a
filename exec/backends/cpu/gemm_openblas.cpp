#include <cblas.h>

#include "exec/backends/cpu/gemm.h"

namespace meshwright::exec::cpu {

namespace {

CBLAS_TRANSPOSE transposed(bool yes) { return yes ? CblasTrans : CblasNoTrans; }
blasint size_of(std::int64_t size) { return static_cast<blasint>(size); }

}  // namespace

void use_one_blas_thread() { openblas_set_num_threads(1); }

void multiply(const Product<float>& p) {
  if (p.m == 0 || p.n == 0) return;
  cblas_sgemm(CblasRowMajor, transposed(p.a.transposed), transposed(p.b.transposed), size_of(p.m),
              size_of(p.n), size_of(p.k), p.alpha, p.a.data, size_of(p.a.row), p.b.data,
              size_of(p.b.row), p.beta, p.c, size_of(p.c_row));
}

void multiply(const Product<double>& p) {
  if (p.m == 0 || p.n == 0) return;
  cblas_dgemm(CblasRowMajor, transposed(p.a.transposed), transposed(p.b.transposed), size_of(p.m),
              size_of(p.n), size_of(p.k), p.alpha, p.a.data, size_of(p.a.row), p.b.data,
              size_of(p.b.row), p.beta, p.c, size_of(p.c_row));
}

}  // namespace meshwright::exec::cpu
