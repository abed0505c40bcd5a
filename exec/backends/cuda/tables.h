// The tables of operations of the CUDA backend, one of each file of kernels.
#pragma once

#include <span>

#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

std::span<const Row> activation_rows();
std::span<const Row> elementwise_rows();
std::span<const Row> framework_product_rows();
std::span<const Row> fused_rows();
std::span<const Row> linear_rows();

using Table = std::span<const Row> (*)();
constexpr Table tables[] = {
    activation_rows, elementwise_rows, framework_product_rows, fused_rows, linear_rows,
};

// The operation's row; null: none.
inline const Row* row_of(Op op) {
  for (const Table table : tables)
    for (const Row& row : table())
      if (row.op == op) return &row;
  return nullptr;
}

}  // namespace meshwright::cuda
