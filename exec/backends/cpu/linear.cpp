// Linear layers and their biases.
#include "exec/backends/cpu/column_sum.h"
#include "exec/backends/cpu/gemm.h"
#include "exec/backends/cpu/kernels.h"

namespace meshwright::cpu {

// y = x W^T, or x W when the weight is stored [in, out].
template <typename T>
void linear(const KernelCall& k) {
  const bool in_out = k.attributes().weight_in_out;
  const std::int64_t rows = k.in_shape(0)[0], in = k.in_shape(0)[1], out = k.out_shape(0)[1];
  const T* bias = k.call.inputs.size() > 2 ? k.in<T>(2) : nullptr;
  multiply<T>(k.pool,
              {.m = rows,
               .n = out,
               .k = in,
               .a = k.in<T>(0),
               .a_row = in,
               .b = k.in<T>(1),
               .b_row = in_out ? out : in,
               .transpose_b = !in_out,
               .c = k.out<T>(0),
               .c_row = out},
              bias);
}

// dx = dy W.
template <typename T>
void linear_grad_input(const KernelCall& k) {
  const bool in_out = k.attributes().weight_in_out;
  const std::int64_t rows = k.in_shape(0)[0], out = k.in_shape(0)[1], in = k.out_shape(0)[1];
  multiply<T>(k.pool, {.m = rows,
                       .n = in,
                       .k = out,
                       .a = k.in<T>(0),
                       .a_row = out,
                       .b = k.in<T>(1),
                       .b_row = in_out ? out : in,
                       .transpose_b = in_out,
                       .c = k.out<T>(0),
                       .c_row = in});
}

// W += dy^T x, or x^T dy when the weight is stored [in, out].
template <typename T>
void linear_grad_weight(const KernelCall& k) {
  const bool in_out = k.attributes().weight_in_out;
  const std::int64_t rows = k.in_shape(0)[0], in = k.in_shape(0)[1], out = k.in_shape(1)[1];
  const T* x = k.in<T>(0);
  const T* dy = k.in<T>(1);
  multiply<T>(k.pool, {.m = in_out ? in : out,
                       .n = in_out ? out : in,
                       .k = rows,
                       .a = in_out ? x : dy,
                       .a_row = in_out ? in : out,
                       .transpose_a = true,
                       .b = in_out ? dy : x,
                       .b_row = in_out ? out : in,
                       .c = k.out<T>(0),
                       .c_row = in_out ? out : in,
                       .beta = 1});
}

template <typename T>
void add_bias(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], n = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* bias = k.in<T>(1);
  T* y = k.out<T>(0);
  parallel_for(k.pool, rows, rows_per_piece(n), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
#pragma omp simd
      for (std::int64_t c = 0; c < n; ++c) y[r * n + c] = x[r * n + c] + bias[c];
    }
  });
}

template <typename T>
void bias_grad(const KernelCall& k) {
  const std::int64_t n = k.in_shape(0)[1];
  const T* dy = k.in<T>(0);
  add_column_sums(k.pool, k.in_shape(0)[0], n, k.out<T>(0),
                  [=](std::int64_t r, std::int64_t c) { return dy[r * n + c]; });
}

MESHWRIGHT_CPU_INSTANTIATE(linear);
MESHWRIGHT_CPU_INSTANTIATE(linear_grad_input);
MESHWRIGHT_CPU_INSTANTIATE(linear_grad_weight);
MESHWRIGHT_CPU_INSTANTIATE(add_bias);
MESHWRIGHT_CPU_INSTANTIATE(bias_grad);

}  // namespace meshwright::cpu
