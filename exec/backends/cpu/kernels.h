// The kernels of the CPU backend: one template per operation, instantiated for float and double.
// What each one computes is said in models/graph/op.h; cpu_backend.cpp has the table.
#pragma once

#include "exec/backends/backend.h"
#include "exec/backends/cpu/thread_pool.h"

namespace meshwright::cpu {

// Everything a kernel is given.
struct KernelCall {
  const OpCall& call;
  const OpOperands& operands;
  const OpContext& context;
  ThreadPool& pool;

  const Attributes& attributes() const { return call.attributes; }
  // Which rows of the first operand's tensor these are.
  std::int64_t first_row() const { return context.first_row; }
  std::int64_t whole_rows() const {
    return context.whole_rows > 0 ? context.whole_rows : in_shape(0)[0];
  }
  const Shape& in_shape(std::size_t i) const { return call.inputs[i].shape; }
  const Shape& out_shape(std::size_t i) const { return call.outputs[i].shape; }
  template <typename T>
  const T* in(std::size_t i) const {
    return static_cast<const T*>(operands.inputs[i]);
  }
  template <typename T>
  T* out(std::size_t i) const {
    return static_cast<T*>(operands.outputs[i]);
  }
};

using Kernel = void (*)(const KernelCall&);

// Matrix rows are handed out in pieces of about this many elements: long enough to hide the cost
// of a piece, short enough to stay in a first-level cache.
constexpr std::int64_t elements_per_piece = 16384;

constexpr std::int64_t rows_per_piece(std::int64_t width) {
  return std::max<std::int64_t>(1, elements_per_piece / std::max<std::int64_t>(1, width));
}

#define MESHWRIGHT_CPU_KERNEL(name) \
  template <typename T>             \
  void name(const KernelCall&)

MESHWRIGHT_CPU_KERNEL(embedding);  // embedding.cpp
MESHWRIGHT_CPU_KERNEL(embedding_grad);
MESHWRIGHT_CPU_KERNEL(add_position);
MESHWRIGHT_CPU_KERNEL(add_position_grad);
MESHWRIGHT_CPU_KERNEL(add_row);
MESHWRIGHT_CPU_KERNEL(add_row_grad);
MESHWRIGHT_CPU_KERNEL(layer_norm);  // norm.cpp
MESHWRIGHT_CPU_KERNEL(layer_norm_grad);
MESHWRIGHT_CPU_KERNEL(rms_norm);
MESHWRIGHT_CPU_KERNEL(rms_norm_grad);
MESHWRIGHT_CPU_KERNEL(norm_stats);
MESHWRIGHT_CPU_KERNEL(norm_parts);
MESHWRIGHT_CPU_KERNEL(norm_parts_sums);
MESHWRIGHT_CPU_KERNEL(norm_parts_grad);
MESHWRIGHT_CPU_KERNEL(linear);  // linear.cpp
MESHWRIGHT_CPU_KERNEL(linear_grad_input);
MESHWRIGHT_CPU_KERNEL(linear_grad_weight);
MESHWRIGHT_CPU_KERNEL(add_bias);
MESHWRIGHT_CPU_KERNEL(bias_grad);
MESHWRIGHT_CPU_KERNEL(rope);  // rope.cpp
MESHWRIGHT_CPU_KERNEL(rope_grad);
MESHWRIGHT_CPU_KERNEL(attention);       // attention.cpp
MESHWRIGHT_CPU_KERNEL(attention_grad);  // attention_grad.cpp
MESHWRIGHT_CPU_KERNEL(context_attention);
MESHWRIGHT_CPU_KERNEL(context_attention_grad);
MESHWRIGHT_CPU_KERNEL(context_pack);  // context.cpp
MESHWRIGHT_CPU_KERNEL(context_unpack);
MESHWRIGHT_CPU_KERNEL(gelu);  // activation.cpp
MESHWRIGHT_CPU_KERNEL(gelu_grad);
MESHWRIGHT_CPU_KERNEL(relu);
MESHWRIGHT_CPU_KERNEL(relu_grad);
MESHWRIGHT_CPU_KERNEL(tanh);
MESHWRIGHT_CPU_KERNEL(tanh_grad);
MESHWRIGHT_CPU_KERNEL(swiglu);
MESHWRIGHT_CPU_KERNEL(swiglu_grad);
MESHWRIGHT_CPU_KERNEL(add);  // elementwise.cpp
MESHWRIGHT_CPU_KERNEL(dropout);
MESHWRIGHT_CPU_KERNEL(select_positions);
MESHWRIGHT_CPU_KERNEL(select_positions_grad);
MESHWRIGHT_CPU_KERNEL(sequence_slice);
MESHWRIGHT_CPU_KERNEL(columns_to_parts);
MESHWRIGHT_CPU_KERNEL(parts_to_columns);
MESHWRIGHT_CPU_KERNEL(cross_entropy);  // loss.cpp
MESHWRIGHT_CPU_KERNEL(cross_entropy_stats);
MESHWRIGHT_CPU_KERNEL(cross_entropy_combine);
MESHWRIGHT_CPU_KERNEL(cross_entropy_grad);
MESHWRIGHT_CPU_KERNEL(span_loss);
MESHWRIGHT_CPU_KERNEL(span_loss_grad);
MESHWRIGHT_CPU_KERNEL(route);  // experts.cpp
MESHWRIGHT_CPU_KERNEL(route_grad);
MESHWRIGHT_CPU_KERNEL(dispatch);
MESHWRIGHT_CPU_KERNEL(dispatch_grad);
MESHWRIGHT_CPU_KERNEL(expert_linear);
MESHWRIGHT_CPU_KERNEL(expert_linear_grad_input);
MESHWRIGHT_CPU_KERNEL(expert_linear_grad_weight);
MESHWRIGHT_CPU_KERNEL(combine);
MESHWRIGHT_CPU_KERNEL(combine_grad);
MESHWRIGHT_CPU_KERNEL(image_patches);  // images.cpp
MESHWRIGHT_CPU_KERNEL(prepend_row);
MESHWRIGHT_CPU_KERNEL(prepend_row_grad);
MESHWRIGHT_CPU_KERNEL(zero);  // bookkeeping.cpp
MESHWRIGHT_CPU_KERNEL(sum_loss);
MESHWRIGHT_CPU_KERNEL(sum_of_squares);
MESHWRIGHT_CPU_KERNEL(scale);  // framework_elementwise.cpp
MESHWRIGHT_CPU_KERNEL(add_constant);
MESHWRIGHT_CPU_KERNEL(cube);
MESHWRIGHT_CPU_KERNEL(cube_grad);
MESHWRIGHT_CPU_KERNEL(multiply);
MESHWRIGHT_CPU_KERNEL(silu);
MESHWRIGHT_CPU_KERNEL(silu_grad);
MESHWRIGHT_CPU_KERNEL(mean_of_squares);  // framework_norm.cpp
MESHWRIGHT_CPU_KERNEL(mean_of_squares_grad);
MESHWRIGHT_CPU_KERNEL(inverse_root);
MESHWRIGHT_CPU_KERNEL(inverse_root_grad);
MESHWRIGHT_CPU_KERNEL(scale_rows);
MESHWRIGHT_CPU_KERNEL(row_dots);
MESHWRIGHT_CPU_KERNEL(scale_columns);
MESHWRIGHT_CPU_KERNEL(scale_columns_grad);
MESHWRIGHT_CPU_KERNEL(split_heads);  // framework_attention.cpp
MESHWRIGHT_CPU_KERNEL(join_heads);
MESHWRIGHT_CPU_KERNEL(scores);
MESHWRIGHT_CPU_KERNEL(add_alibi);
MESHWRIGHT_CPU_KERNEL(mask_scores);
MESHWRIGHT_CPU_KERNEL(softmax);
MESHWRIGHT_CPU_KERNEL(softmax_grad);
MESHWRIGHT_CPU_KERNEL(drop_probabilities);
MESHWRIGHT_CPU_KERNEL(weigh_values);
MESHWRIGHT_CPU_KERNEL(weigh_transposed);
MESHWRIGHT_CPU_KERNEL(log_softmax);  // framework_loss.cpp
MESHWRIGHT_CPU_KERNEL(log_softmax_grad);
MESHWRIGHT_CPU_KERNEL(nll_loss);
MESHWRIGHT_CPU_KERNEL(nll_loss_grad);
MESHWRIGHT_CPU_KERNEL(rotate_half);  // rope.cpp
MESHWRIGHT_CPU_KERNEL(rotate_half_grad);
MESHWRIGHT_CPU_KERNEL(times_cosine);
MESHWRIGHT_CPU_KERNEL(times_sine);
MESHWRIGHT_CPU_KERNEL(add_relative_bias);  // framework_attention.cpp
MESHWRIGHT_CPU_KERNEL(relative_bias_grad);

#undef MESHWRIGHT_CPU_KERNEL

// Kernels that only move elements serve 16-bit types as they are.
#define MESHWRIGHT_CPU_INSTANTIATE_16_BIT(name) template void name<std::uint16_t>(const KernelCall&)

// At the end of each kernel file.
#define MESHWRIGHT_CPU_INSTANTIATE(name)        \
  template void name<float>(const KernelCall&); \
  template void name<double>(const KernelCall&)

}  // namespace meshwright::cpu
