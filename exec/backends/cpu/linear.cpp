// Linear layers and their biases.
#include "exec/backends/cpu/column_sum.h"
#include "exec/backends/cpu/gemm.h"
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/tables.h"
#include "models/program/graph/widen.h"

namespace meshwright::exec::cpu {

namespace {

template <typename T>
void multiply_operands(const KernelCall& k) {
  const LinearProduct form = product_of(k.call);
  multiply<T>(k.pool,
              {.m = form.m,
               .n = form.n,
               .k = form.k,
               .a = {k.in<T>(form.a), k.in_shape(form.a)[1], form.transpose_a},
               .b = {k.in<T>(form.b), k.in_shape(form.b)[1], form.transpose_b},
               .c = k.out<T>(0),
               .c_row = k.out_shape(0)[1],
               .beta = T(form.adds ? 1 : 0)},
              k.call.inputs.size() > 2 ? k.in<T>(2) : nullptr);
}

}  // namespace

template <typename T>
void linear(const KernelCall& k) {
  multiply_operands<T>(k);
}

template <typename T>
void linear_grad_input(const KernelCall& k) {
  multiply_operands<T>(k);
}

template <typename T>
void linear_grad_weight(const KernelCall& k) {
  multiply_operands<T>(k);
}

template <typename T>
void add_bias(const KernelCall& k) {
  add_to_each_row<T>(k);
}

template <typename T>
void bias_grad(const KernelCall& k) {
  const std::int64_t n = k.in_shape(0)[1];
  const T* dy = k.in<T>(0);
  add_column_sums<T>(k, k.in_shape(0)[0], n, 0,
                     [=](std::int64_t r, std::int64_t c) { return dy[r * n + c]; });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(linear),
    MESHWRIGHT_CPU_ROW(linear_grad_input),
    MESHWRIGHT_CPU_ROW(linear_grad_weight),
    MESHWRIGHT_CPU_ROW(add_bias),
    MESHWRIGHT_CPU_ROW(bias_grad),
};

std::span<const Row> linear_rows() { return rows; }

}  // namespace meshwright::exec::cpu
