// The tables of operations of the CUDA backend. Each file of kernels has one.
#pragma once

#include <span>

#include "exec/backends/cuda/kernels.h"
#include "models/program/graph/gpu_scratch.h"
#include "models/program/graph/op_call.h"

namespace meshwright::cuda {

std::span<const Row> activation_rows();
std::span<const Row> attention_rows();
std::span<const Row> attention_grad_rows();
std::span<const Row> bookkeeping_rows();
std::span<const Row> context_rows();
std::span<const Row> elementwise_rows();
std::span<const Row> embedding_rows();
std::span<const Row> expert_rows_rows();
std::span<const Row> experts_rows();
std::span<const Row> eager_attention_rows();
std::span<const Row> eager_elementwise_rows();
std::span<const Row> eager_loss_rows();
std::span<const Row> eager_norm_rows();
std::span<const Row> framework_product_rows();
std::span<const Row> eager_relative_rows();
std::span<const Row> fused_rows();
std::span<const Row> images_rows();
std::span<const Row> latent_rows();
std::span<const Row> linear_rows();
std::span<const Row> loss_rows();
std::span<const Row> norm_rows();
std::span<const Row> norm_parts_rows();
std::span<const Row> quantized_rows();
std::span<const Row> rope_rows();

using Table = std::span<const Row> (*)();
constexpr Table tables[] = {
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
  for (const Table table : tables)
    for (const Row& row : table())
      if (row.op == op) return &row;
  return nullptr;
}

// Returns the bytes of scratch memory that the operation needs. It is called before the operation
// first runs and lets libraries prepare for it.
inline std::int64_t workspace_of(const Row& row, const OpCall& call, const Device& device) {
  return row.prepare != nullptr ? row.prepare(call, device) : gpu_scratch_bytes(call);
}

}  // namespace meshwright::cuda
