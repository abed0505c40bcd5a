// The tables of operations of the CUDA backend, one of each file of kernels.
#pragma once

#include <span>

#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

std::span<const Row> activation_rows();
std::span<const Row> bookkeeping_rows();
std::span<const Row> context_rows();
std::span<const Row> elementwise_rows();
std::span<const Row> embedding_rows();
std::span<const Row> norm_rows();
std::span<const Row> norm_parts_rows();
std::span<const Row> rope_rows();

using Table = std::span<const Row> (*)();
constexpr Table tables[] = {
    activation_rows, bookkeeping_rows, context_rows,    elementwise_rows,
    embedding_rows,  norm_rows,        norm_parts_rows, rope_rows,
};

// The operation's row; null: none.
inline const Row* row_of(Op op) {
  for (const Table table : tables)
    for (const Row& row : table())
      if (row.op == op) return &row;
  return nullptr;
}

}  // namespace meshwright::cuda
