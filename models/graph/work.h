// What each operation costs a GPU: its kernels with FLOPs and bytes, per compiler level. Rows of
// the table in op.cpp point here.
#pragma once

#include "models/graph/op.h"

namespace meshwright {

using Work = void(const OpCall&, CompilerLevel, std::vector<Kernel>&);

Work work_nothing, work_embedding, work_embedding_grad, work_rewrite, work_add_row, work_column_sum,
    work_layer_norm, work_rms_norm, work_norm_grad, work_linear, work_linear_grad_input,
    work_linear_grad_weight, work_add_bias, work_rope, work_attention, work_attention_grad,
    work_unary, work_elementwise, work_gelu, work_gelu_grad, work_dropout, work_dropout_grad,
    work_swiglu, work_swiglu_grad, work_cross_entropy, work_cross_entropy_grad, work_norm_stats,
    work_norm_parts_sums, work_norm_parts_grad, work_zero, work_route, work_combine,
    work_expert_linear, work_expert_linear_grad_input, work_expert_linear_grad_weight, work_fused;

// Of the framework's operations.
Work work_mean_of_squares, work_mean_of_squares_grad, work_scale_rows, work_row_dots,
    work_scale_columns_grad, work_rotate_half, work_scores, work_weigh, work_log_softmax,
    work_log_softmax_grad, work_nll_loss, work_add_relative_bias;

}  // namespace meshwright
