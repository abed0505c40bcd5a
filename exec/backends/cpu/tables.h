// The tables of operations of the CPU backend. Each file of kernels has one.
#pragma once

#include <span>

#include "exec/backends/cpu/kernels.h"

namespace meshwright::exec::cpu {

struct Row {
  Op op;
  Kernel f32, f64;
  Kernel as_stored = nullptr;  // for 16-bit elements; null: they are widened
};

// Make the rows of the table at the end of a file of kernels, from templates that have the
// operation's name. The second macro is for operations that only move elements, which take 16-bit
// elements as they are stored. Other operations widen them first.
#define MESHWRIGHT_CPU_ROW(name) \
  { Op::name, name<float>, name<double> }
#define MESHWRIGHT_MOVING_ROW(name) \
  { Op::name, name<float>, name<double>, name<std::uint16_t> }

using Table = std::span<const Row>();
Table activation_rows, attention_rows, attention_grad_rows, bookkeeping_rows, context_rows,
    elementwise_rows, embedding_rows, expert_rows_rows, experts_rows, eager_attention_rows,
    eager_elementwise_rows, eager_loss_rows, eager_norm_rows, images_rows, linear_rows, loss_rows,
    norm_rows, quantized_rows, rope_rows;
constexpr Table* tables[] = {
    activation_rows,
    attention_rows,
    attention_grad_rows,
    bookkeeping_rows,
    context_rows,
    elementwise_rows,
    embedding_rows,
    expert_rows_rows,
    experts_rows,
    eager_attention_rows,
    eager_elementwise_rows,
    eager_loss_rows,
    eager_norm_rows,
    images_rows,
    linear_rows,
    loss_rows,
    norm_rows,
    quantized_rows,
    rope_rows,
};

// Returns the operation's row, or null if no file of kernels has one, as for collectives and
// Op::fused.
inline const Row* row_of(Op op) {
  for (Table* table : tables)
    for (const Row& row : table())
      if (row.op == op) return &row;
  return nullptr;
}

}  // namespace meshwright::exec::cpu
