// Matrix products for builds without OpenBLAS (MESHWRIGHT_SELF_CONTAINED): Eigen computes them on
// the calling thread.
#include <Eigen/Core>

#include "exec/backends/cpu/gemm.h"

namespace meshwright::exec::cpu {

namespace {

template <typename T>
using Rows = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                        Eigen::OuterStride<>>;
template <typename T>
using ConstRows =
    Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
               Eigen::OuterStride<>>;

template <typename T>
void multiply_rows(const Product<T>& p) {
  if (p.m == 0 || p.n == 0) return;
  Rows<T> c(p.c, p.m, p.n, Eigen::OuterStride<>(p.c_row));
  if (p.beta == T(0))
    c.setZero();
  else if (p.beta != T(1))
    c *= p.beta;
  if (p.k == 0) return;
  const ConstRows<T> a(p.a.data, p.a.transposed ? p.k : p.m, p.a.transposed ? p.m : p.k,
                       Eigen::OuterStride<>(p.a.row));
  const ConstRows<T> b(p.b.data, p.b.transposed ? p.n : p.k, p.b.transposed ? p.k : p.n,
                       Eigen::OuterStride<>(p.b.row));
  if (p.a.transposed && p.b.transposed)
    c.noalias() += p.alpha * a.transpose() * b.transpose();
  else if (p.a.transposed)
    c.noalias() += p.alpha * a.transpose() * b;
  else if (p.b.transposed)
    c.noalias() += p.alpha * a * b.transpose();
  else
    c.noalias() += p.alpha * a * b;
}

}  // namespace

void use_one_blas_thread() {}

void multiply(const Product<float>& product) { multiply_rows(product); }
void multiply(const Product<double>& product) { multiply_rows(product); }

}  // namespace meshwright::exec::cpu
