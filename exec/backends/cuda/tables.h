// The tables of operations of the CUDA backend, one of each file of kernels.
#pragma once

#include <span>

#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

std::span<const Row> activation_rows();
std::span<const Row> elementwise_rows();
std::span<const Row> experts_rows();
std::span<const Row> framework_attention_rows();
std::span<const Row> framework_elementwise_rows();
std::span<const Row> framework_loss_rows();
std::span<const Row> framework_norm_rows();
std::span<const Row> framework_relative_rows();
std::span<const Row> images_rows();
std::span<const Row> loss_rows();

using Table = std::span<const Row> (*)();
constexpr Table tables[] = {
    activation_rows,
    elementwise_rows,
    experts_rows,
    framework_attention_rows,
    framework_elementwise_rows,
    framework_loss_rows,
    framework_norm_rows,
    framework_relative_rows,
    images_rows,
    loss_rows,
};

// The operation's row; null: none.
inline const Row* row_of(Op op) {
  for (const Table table : tables)
    for (const Row& row : table())
      if (row.op == op) return &row;
  return nullptr;
}

}  // namespace meshwright::cuda
