// Lists the tables of operations of the CUDA backend. Each table is defined beside its kernels.
#pragma once

#include <span>

#include "exec/backends/cuda/kernels.h"
#include "models/program/graph/gpu_scratch.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec::cuda {

using Table = std::span<const Row>();
Table activation_rows, attention_rows, attention_grad_rows, bookkeeping_rows, context_rows,
    elementwise_rows, embedding_rows, expert_rows_rows, experts_rows, eager_attention_rows,
    eager_elementwise_rows, eager_loss_rows, eager_norm_rows, framework_product_rows,
    eager_relative_rows, fused_rows, images_rows, latent_rows, linear_rows, loss_rows, norm_rows,
    norm_parts_rows, quantized_rows, rope_rows;
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
    framework_product_rows,
    eager_relative_rows,
    fused_rows,
    images_rows,
    latent_rows,
    linear_rows,
    loss_rows,
    norm_rows,
    norm_parts_rows,
    quantized_rows,
    rope_rows,
};

// Returns the operation's row, or null if the backend does not have the operation.
inline const Row* row_of(Op op) {
  for (Table* table : tables)
    for (const Row& row : table())
      if (row.op == op) return &row;
  return nullptr;
}

// Returns the bytes of scratch memory that the operation needs. It must be called before the
// operation first runs, because it also prepares libraries for the operation.
inline std::int64_t workspace_of(const Row& row, const OpCall& call, const Device& device) {
  return row.prepare != nullptr ? row.prepare(call, device) : gpu_scratch_bytes(call);
}

}  // namespace meshwright::exec::cuda
