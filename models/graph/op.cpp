#include "models/graph/op.h"

#include <cmath>

#include "models/core/error.h"
#include "models/graph/fusion.h"
#include "models/graph/work.h"

namespace meshwright {

namespace {

using In = std::span<const TensorType>;
using Out = std::vector<TensorType>;

void require(bool condition, const char* why) { MESHWRIGHT_CHECK(condition, why); }

TensorType matrix(std::int64_t rows, std::int64_t columns, Dtype dtype) {
  return {Shape{rows, columns}, dtype};
}

TensorType column(std::int64_t rows, Dtype dtype) { return {Shape{rows}, dtype}; }

void same_as_first(const Attributes&, In in, Out& out) { out.push_back(in[0]); }
void same_as_second(const Attributes&, In in, Out& out) { out.push_back(in[1]); }
void nothing(const Attributes&, In, Out&) {}

void infer_embedding(const Attributes&, In in, Out& out) {
  require(in[1].shape.rank == 2, "an embedding table is a matrix");
  out.push_back(matrix(in[0].shape.elements(), in[1].shape[1], in[1].dtype));
}

void infer_layer_norm(const Attributes&, In in, Out& out) {
  require(in[0].shape[-1] == in[1].shape[0], "the norm's weight has the row's width");
  out.push_back(in[0]);
  out.push_back(matrix(in[0].shape[0], 2, Dtype::f32));
}

void infer_rms_norm(const Attributes&, In in, Out& out) {
  require(in[0].shape[-1] == in[1].shape[0], "the norm's weight has the row's width");
  out.push_back(in[0]);
  out.push_back(matrix(in[0].shape[0], 1, Dtype::f32));
}

void infer_linear(const Attributes& a, In in, Out& out) {
  const Shape& weight = in[1].shape;
  require(weight.rank == 2 && weight[a.weight_in_out ? 0 : 1] == in[0].shape[1],
          "the weight's input size is the row's width");
  out.push_back(matrix(in[0].shape[0], weight[a.weight_in_out ? 1 : 0], in[0].dtype));
}

void infer_add(const Attributes&, In in, Out& out) {
  require(in[0] == in[1], "both summands have one type");
  out.push_back(in[0]);
}

TensorType saved_by_attention(const Attributes& a, Dtype dtype) {
  const std::int64_t batch = std::int64_t{a.micro_batch} * a.heads;
  if (a.attention == AttentionKernel::unfused)
    return {Shape{batch, a.sequence_length, a.sequence_length}, dtype};
  return {Shape{batch, a.sequence_length}, Dtype::f32};
}

void infer_attention(const Attributes& a, In in, Out& out) {
  const std::int64_t width = in.size() == 1 ? std::int64_t{a.heads + 2 * a.kv_heads} * a.head_dim
                                            : std::int64_t{a.heads} * a.head_dim;
  require(in[0].shape[1] == width, "the queries' width is heads * head_dim");
  require(in[0].shape[0] == std::int64_t{a.micro_batch} * a.sequence_length, "whole sequences");
  require(a.relative_buckets == 0 ||
              (in.size() == 4 && in[3].shape == Shape{a.relative_buckets, a.heads}),
          "the table of relative positions follows separate queries, keys and values");
  out.push_back(matrix(in[0].shape[0], std::int64_t{a.heads} * a.head_dim, in[0].dtype));
  out.push_back(saved_by_attention(a, in[0].dtype));
}

std::int64_t keys_values_width(const Attributes& a) {
  return std::int64_t{2} * a.kv_heads * a.head_dim;
}

void infer_context_pack(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], keys_values_width(a), in[0].dtype));
}

void infer_context_gather(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0] * a.context_degree, in[0].shape[1], in[0].dtype));
}

void infer_context_scatter(const Attributes& a, In in, Out& out) {
  require(in[0].shape[0] % a.context_degree == 0, "one part for each rank");
  out.push_back(matrix(in[0].shape[0] / a.context_degree, in[0].shape[1], in[0].dtype));
}

void infer_context_attention(const Attributes& a, In in, Out& out) {
  require(in[1].shape[1] == keys_values_width(a), "keys and values of all their heads");
  require(in[0].shape[0] == std::int64_t{a.micro_batch} * a.sequence_length, "whole shares");
  require(a.attention != AttentionKernel::unfused, "parts are merged by their log-sum-exp");
  out.push_back(matrix(in[0].shape[0], std::int64_t{a.heads} * a.head_dim, in[0].dtype));
  out.push_back(saved_by_attention(a, in[0].dtype));
}

void infer_context_attention_grad(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], std::int64_t{a.heads} * a.head_dim, in[0].dtype));
  out.push_back(in[1]);
}

void infer_context_unpack(const Attributes& a, In in, Out& out) {
  const TensorType& dkv = in.back();
  if (in.size() == 2)
    out.push_back(matrix(dkv.shape[0], in[0].shape[1] + keys_values_width(a), dkv.dtype));
  else
    out.assign(2, matrix(dkv.shape[0], keys_values_width(a) / 2, dkv.dtype));
}

void infer_swiglu(const Attributes&, In in, Out& out) { infer_add({}, in, out); }

std::int64_t all_slots(const Attributes& a) {
  return std::int64_t{a.experts} * a.micro_batch * a.expert_capacity;
}

void infer_route(const Attributes& a, In in, Out& out) {
  require(in[0].shape == Shape{std::int64_t{a.micro_batch} * a.sequence_length, a.experts},
          "one logit per expert, whole sequences");
  out.push_back(matrix(in[0].shape[0], a.experts_per_token, Dtype::f32));
  out.push_back(matrix(in[0].shape[0], a.experts_per_token, Dtype::i32));
  out.push_back(column(a.micro_batch, Dtype::f32));
}

void infer_dispatch(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(all_slots(a), in[0].shape[1], in[0].dtype));
}

void infer_dispatch_grad(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], in[1].shape[1], in[1].dtype));
}

void infer_expert_linear(const Attributes& a, In in, Out& out) {
  const Shape& weight = in[1].shape;
  require(weight.rank == 3 && weight[2] == in[0].shape[1], "a matrix for each expert");
  require(in[0].shape[0] == all_slots(a) && a.experts % weight[0] == 0, "whole groups of slots");
  out.push_back(matrix(in[0].shape[0], weight[1], in[0].dtype));
}

void infer_expert_linear_grad_input(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], in[1].shape[2], in[0].dtype));
}

void infer_combine(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in[1].shape[0], in[0].shape[1], in[0].dtype));
}

void infer_combine_grad(const Attributes&, In in, Out& out) {
  out.push_back(in[0]);
  out.push_back(in[1]);
}

void infer_select_positions(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in[1].shape.elements(), in[0].shape[1], in[0].dtype));
}

void infer_cross_entropy(const Attributes&, In in, Out& out) {
  require(in[0].shape[0] == in[1].shape.elements(), "one target per row of logits");
  out.push_back(column(in[0].shape[0], Dtype::f32));
  out.push_back(column(in[0].shape[0], Dtype::f32));
}

void infer_cross_entropy_stats(const Attributes&, In in, Out& out) {
  out.push_back(matrix(3, in[0].shape[0], Dtype::f32));
}

void infer_cross_entropy_combine(const Attributes&, In in, Out& out) {
  out.push_back(column(in[0].shape[1], Dtype::f32));
  out.push_back(column(in[0].shape[1], Dtype::f32));
}

void infer_span_loss(const Attributes&, In in, Out& out) {
  require(in[0].shape[1] == 2, "two logits per token: start and end");
  out.push_back(column(in[1].shape.elements(), Dtype::f32));
  out.push_back(column(in[1].shape.elements(), Dtype::f32));
}

void infer_gather_rows(const Attributes& a, In in, Out& out) {
  out.push_back(in[0]);
  out.back().shape[0] *= a.tensor_degree;
}

void infer_scatter_rows(const Attributes& a, In in, Out& out) {
  require(in[0].shape[0] % a.tensor_degree == 0, "the tensor degree divides the rows");
  out.push_back(matrix(in[0].shape[0] / a.tensor_degree, in[0].shape[1], in[0].dtype));
}

void infer_norm_stats(const Attributes&, In in, Out& out) {
  out.push_back(matrix(2, in[0].shape[0], Dtype::f32));
}

void infer_norm_parts(const Attributes& a, In in, Out& out) {
  require(in[0].shape[-1] == in[1].shape[0], "the norm's weight has the row's width");
  require(in.back().shape == Shape{std::int64_t{2} * a.tensor_degree, in[0].shape[0]},
          "two statistics of every rank for each row");
  out.push_back(in[0]);
  out.push_back(matrix(in[0].shape[0], a.rms_norm ? 1 : 2, Dtype::f32));
}

void infer_columns_to_parts(const Attributes& a, In in, Out& out) {
  require(in[0].shape[1] % a.tensor_degree == 0, "the tensor degree divides the columns");
  out.push_back(
      matrix(in[0].shape[0] * a.tensor_degree, in[0].shape[1] / a.tensor_degree, in[0].dtype));
}

void infer_parts_to_columns(const Attributes& a, In in, Out& out) {
  require(in[0].shape[0] % a.tensor_degree == 0, "one part per rank");
  out.push_back(
      matrix(in[0].shape[0] / a.tensor_degree, in[0].shape[1] * a.tensor_degree, in[0].dtype));
}

void infer_linear_grad_input(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], in[1].shape[a.weight_in_out ? 0 : 1], in[0].dtype));
}

void infer_attention_grad(const Attributes& a, In in, Out& out) {
  const std::size_t tensors = a.packing == Packing::separate ? 3 : 1;
  for (std::size_t i = 0; i < tensors; ++i) out.push_back(in[i]);
}

void infer_swiglu_grad(const Attributes&, In in, Out& out) {
  out.push_back(in[0]);
  out.push_back(in[1]);
}

void infer_select_positions_grad(const Attributes& a, In in, Out& out) {
  out.push_back(
      matrix(std::int64_t{a.micro_batch} * a.sequence_length, in[0].shape[1], in[0].dtype));
}

void infer_fused(const Attributes& a, In in, Out& out) {
  const Fusion& fusion = *a.fusion;
  require(static_cast<int>(in.size()) == fusion.inputs, "a fusion has its inputs");
  for (std::size_t i = 0; i < in.size(); ++i)
    require(in[i] == fusion.operands[i], "a fusion's inputs have their types");
  for (int i = 0; i < fusion.outputs; ++i)
    out.push_back(fusion.operands[static_cast<std::size_t>(fusion.inputs + i)]);
}

// Of the framework's operations.

void infer_column_of_rows(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], 1, Dtype::f32));
}

void infer_scale_rows(const Attributes&, In in, Out& out) {
  require(in[1].shape == Shape{in[0].shape[0], 1}, "one factor for each row");
  out.push_back(in[0]);
}

void infer_scale_columns(const Attributes&, In in, Out& out) {
  require(in[0].shape[-1] == in[1].shape[0], "one factor for each column");
  out.push_back(in[0]);
}

TensorType of_heads(const Attributes& a, std::int64_t heads, Dtype dtype) {
  return {Shape{a.micro_batch * heads, a.sequence_length, a.head_dim}, dtype};
}

void infer_split_heads(const Attributes& a, In in, Out& out) {
  require(in[0].shape[0] == std::int64_t{a.micro_batch} * a.sequence_length, "whole sequences");
  if (a.packing == Packing::separate) {
    out.push_back(of_heads(a, in[0].shape[1] / a.head_dim, in[0].dtype));
    return;
  }
  for (const int heads : {a.heads, a.kv_heads, a.kv_heads})
    out.push_back(of_heads(a, heads, in[0].dtype));
}

void infer_join_heads(const Attributes& a, In in, Out& out) {
  std::int64_t heads = 0;
  for (const TensorType& each : in) heads += each.shape[0] / a.micro_batch;
  out.push_back(
      matrix(std::int64_t{a.micro_batch} * a.sequence_length, heads * a.head_dim, in[0].dtype));
}

void infer_scores(const Attributes& a, In in, Out& out) {
  require(
      in[0].shape[0] * a.kv_heads == in[1].shape[0] * a.heads && in[0].shape[2] == in[1].shape[2],
      "query heads share key-value heads evenly");
  out.push_back({Shape{in[0].shape[0], in[0].shape[1], in[1].shape[1]}, in[0].dtype});
}

void infer_weigh_values(const Attributes& a, In in, Out& out) {
  out.push_back(of_heads(a, a.heads, in[0].dtype));
}

void infer_weigh_transposed(const Attributes& a, In in, Out& out) {
  out.push_back(of_heads(a, a.kv_heads, in[0].dtype));
}

void infer_log_softmax(const Attributes&, In in, Out& out) {
  out.push_back({in[0].shape, Dtype::f32});
}

void infer_log_softmax_grad(const Attributes& a, In in, Out& out) {
  out.push_back({in[0].shape, a.storage});
}

void infer_nll_loss(const Attributes&, In in, Out& out) {
  require(in[0].shape[0] == in[1].shape.elements(), "one target per row of logits");
  out.push_back(column(in[0].shape[0], Dtype::f32));
}

void infer_image_patches(const Attributes& a, In in, Out& out) {
  const std::int64_t across = patches_across(a), patches = across * across;
  const std::int64_t width = std::int64_t{a.channels} * a.patch_size * a.patch_size;
  require(patches == a.sequence_length - 1, "a class token, and the patches of a square");
  require(in[0].shape == Shape{a.micro_batch, patches * width}, "whole images");
  out.push_back(matrix(a.micro_batch * patches, width, a.made));
}

void infer_prepend_row(const Attributes& a, In in, Out& out) {
  require(in[0].shape[1] == in[1].shape[0], "the row has the width of the others");
  out.push_back(matrix(in[0].shape[0] + a.micro_batch, in[0].shape[1], in[0].dtype));
}

void infer_add_relative_bias(const Attributes& a, In in, Out& out) {
  require(in[1].shape == Shape{a.relative_buckets, a.heads}, "a column of the table for each head");
  out.push_back(in[0]);
}

void infer_prepend_row_grad(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0] - a.micro_batch, in[0].shape[1], in[0].dtype));
}

constexpr bool forward = false, gradient = true;
constexpr bool local = false, communication = true;

// The table. One row per operation, in the order of the enumerators.
constexpr OpInfo table[] = {
    {Op::embedding, "embedding", SplitRule::vocabulary, forward, local, infer_embedding,
     work_embedding},
    {Op::add_position, "add_position", SplitRule::rows, forward, local, same_as_first,
     work_add_row},
    {Op::add_row, "add_row", SplitRule::rows, forward, local, same_as_first, work_add_row},
    {Op::layer_norm, "layer_norm", SplitRule::rows, forward, local, infer_layer_norm,
     work_layer_norm},
    {Op::rms_norm, "rms_norm", SplitRule::rows, forward, local, infer_rms_norm, work_rms_norm},
    {Op::linear, "linear", SplitRule::linear, forward, local, infer_linear, work_linear},
    {Op::add_bias, "add_bias", SplitRule::rows, forward, local, same_as_first, work_add_bias},
    {Op::rope, "rope", SplitRule::heads, forward, local, same_as_first, work_rope},
    {Op::attention, "attention", SplitRule::heads, forward, local, infer_attention, work_attention},
    {Op::gelu, "gelu", SplitRule::elements, forward, local, same_as_first, work_gelu},
    {Op::relu, "relu", SplitRule::elements, forward, local, same_as_first, work_unary},
    {Op::tanh, "tanh", SplitRule::elements, forward, local, same_as_first, work_unary},
    {Op::swiglu, "swiglu", SplitRule::elements, forward, local, infer_swiglu, work_swiglu},
    {Op::add, "add", SplitRule::elements, forward, local, infer_add, work_elementwise},
    {Op::dropout, "dropout", SplitRule::elements, forward, local, same_as_first, work_dropout},
    {Op::select_positions, "select_positions", SplitRule::whole, forward, local,
     infer_select_positions, work_elementwise},
    {Op::cross_entropy, "cross_entropy", SplitRule::vocabulary, forward, local, infer_cross_entropy,
     work_cross_entropy},
    {Op::cross_entropy_stats, "cross_entropy_stats", SplitRule::none, forward, local,
     infer_cross_entropy_stats, work_cross_entropy},
    {Op::cross_entropy_combine, "cross_entropy_combine", SplitRule::none, forward, local,
     infer_cross_entropy_combine, work_elementwise},
    {Op::span_loss, "span_loss", SplitRule::whole, forward, local, infer_span_loss,
     work_elementwise},
    {Op::tensor_copy, "tensor_copy", SplitRule::none, forward, local, same_as_first, work_nothing},
    {Op::tensor_reduce, "tensor_reduce", SplitRule::none, forward, communication, same_as_first,
     work_nothing},
    {Op::sequence_gather, "sequence_gather", SplitRule::none, forward, communication,
     infer_gather_rows, work_nothing},
    {Op::sequence_scatter, "sequence_scatter", SplitRule::none, forward, communication,
     infer_scatter_rows, work_nothing},
    {Op::sequence_slice, "sequence_slice", SplitRule::none, forward, local, infer_scatter_rows,
     work_elementwise},
    {Op::stats_gather, "stats_gather", SplitRule::none, forward, communication, infer_gather_rows,
     work_nothing},
    {Op::context_pack, "context_pack", SplitRule::none, forward, local, infer_context_pack,
     work_rewrite},
    {Op::context_shift, "context_shift", SplitRule::none, forward, communication, same_as_first,
     work_nothing},
    {Op::context_gather, "context_gather", SplitRule::none, forward, communication,
     infer_context_gather, work_nothing},
    {Op::context_attention, "context_attention", SplitRule::none, forward, local,
     infer_context_attention, work_attention},
    {Op::norm_stats, "norm_stats", SplitRule::none, forward, local, infer_norm_stats,
     work_norm_stats},
    {Op::norm_parts, "norm_parts", SplitRule::none, forward, local, infer_norm_parts,
     work_layer_norm},
    {Op::columns_to_parts, "columns_to_parts", SplitRule::none, forward, local,
     infer_columns_to_parts, work_unary},
    {Op::parts_to_columns, "parts_to_columns", SplitRule::none, forward, local,
     infer_parts_to_columns, work_unary},
    {Op::route, "route", SplitRule::none, forward, local, infer_route, work_route},
    {Op::dispatch, "dispatch", SplitRule::none, forward, local, infer_dispatch, work_rewrite},
    {Op::expert_exchange, "expert_exchange", SplitRule::none, forward, communication, same_as_first,
     work_nothing},
    {Op::expert_linear, "expert_linear", SplitRule::none, forward, local, infer_expert_linear,
     work_expert_linear},
    {Op::combine, "combine", SplitRule::none, forward, local, infer_combine, work_combine},
    {Op::scale, "scale", SplitRule::elements, forward, local, same_as_first, work_unary},
    {Op::add_constant, "add_constant", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::cube, "cube", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::multiply, "multiply", SplitRule::elements, forward, local, infer_add, work_elementwise},
    {Op::silu, "silu", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::mean_of_squares, "mean_of_squares", SplitRule::none, forward, local, infer_column_of_rows,
     work_mean_of_squares},
    {Op::inverse_root, "inverse_root", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::scale_rows, "scale_rows", SplitRule::none, forward, local, infer_scale_rows,
     work_scale_rows},
    {Op::scale_columns, "scale_columns", SplitRule::none, forward, local, infer_scale_columns,
     work_elementwise},
    {Op::rotate_half, "rotate_half", SplitRule::none, forward, local, same_as_first,
     work_rotate_half},
    {Op::times_cosine, "times_cosine", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::times_sine, "times_sine", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::split_heads, "split_heads", SplitRule::none, forward, local, infer_split_heads,
     work_rewrite},
    {Op::join_heads, "join_heads", SplitRule::none, forward, local, infer_join_heads, work_rewrite},
    {Op::scores, "scores", SplitRule::none, forward, local, infer_scores, work_scores},
    {Op::add_alibi, "add_alibi", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::mask_scores, "mask_scores", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::softmax, "softmax", SplitRule::none, forward, local, same_as_first, work_unary},
    {Op::drop_probabilities, "drop_probabilities", SplitRule::none, forward, local, same_as_first,
     work_dropout},
    {Op::weigh_values, "weigh_values", SplitRule::none, forward, local, infer_weigh_values,
     work_weigh},
    {Op::log_softmax, "log_softmax", SplitRule::none, forward, local, infer_log_softmax,
     work_log_softmax},
    {Op::nll_loss, "nll_loss", SplitRule::none, forward, local, infer_nll_loss, work_nll_loss},
    // images
    {Op::image_patches, "image_patches", SplitRule::whole, forward, local, infer_image_patches,
     work_elementwise},
    {Op::prepend_row, "prepend_row", SplitRule::first, forward, local, infer_prepend_row,
     work_rewrite},
    // relative positions
    {Op::add_relative_bias, "add_relative_bias", SplitRule::none, forward, local,
     infer_add_relative_bias, work_add_relative_bias},
    {Op::embedding_grad, "embedding_grad", SplitRule::none, gradient, local, nothing,
     work_embedding_grad},
    {Op::add_position_grad, "add_position_grad", SplitRule::none, gradient, local, nothing,
     work_column_sum},
    {Op::add_row_grad, "add_row_grad", SplitRule::none, gradient, local, nothing, work_column_sum},
    {Op::layer_norm_grad, "layer_norm_grad", SplitRule::none, gradient, local, same_as_first,
     work_norm_grad},
    {Op::rms_norm_grad, "rms_norm_grad", SplitRule::none, gradient, local, same_as_first,
     work_norm_grad},
    {Op::linear_grad_input, "linear_grad_input", SplitRule::none, gradient, local,
     infer_linear_grad_input, work_linear_grad_input},
    {Op::linear_grad_weight, "linear_grad_weight", SplitRule::none, gradient, local, nothing,
     work_linear_grad_weight},
    {Op::bias_grad, "bias_grad", SplitRule::none, gradient, local, nothing, work_column_sum},
    {Op::rope_grad, "rope_grad", SplitRule::none, gradient, local, same_as_first, work_rope},
    {Op::attention_grad, "attention_grad", SplitRule::none, gradient, local, infer_attention_grad,
     work_attention_grad},
    {Op::context_attention_grad, "context_attention_grad", SplitRule::none, gradient, local,
     infer_context_attention_grad, work_attention_grad},
    {Op::context_scatter, "context_scatter", SplitRule::none, gradient, communication,
     infer_context_scatter, work_nothing},
    {Op::context_unpack, "context_unpack", SplitRule::none, gradient, local, infer_context_unpack,
     work_rewrite},
    {Op::gelu_grad, "gelu_grad", SplitRule::none, gradient, local, same_as_first, work_gelu_grad},
    {Op::relu_grad, "relu_grad", SplitRule::none, gradient, local, same_as_first, work_elementwise},
    {Op::tanh_grad, "tanh_grad", SplitRule::none, gradient, local, same_as_second,
     work_elementwise},
    {Op::swiglu_grad, "swiglu_grad", SplitRule::none, gradient, local, infer_swiglu_grad,
     work_swiglu_grad},
    {Op::dropout_grad, "dropout_grad", SplitRule::none, gradient, local, same_as_first,
     work_dropout_grad},
    {Op::select_positions_grad, "select_positions_grad", SplitRule::none, gradient, local,
     infer_select_positions_grad, work_elementwise},
    {Op::cross_entropy_grad, "cross_entropy_grad", SplitRule::none, gradient, local, same_as_first,
     work_cross_entropy_grad},
    {Op::span_loss_grad, "span_loss_grad", SplitRule::none, gradient, local, same_as_first,
     work_elementwise},
    {Op::norm_parts_sums, "norm_parts_sums", SplitRule::none, gradient, local, infer_norm_stats,
     work_norm_parts_sums},
    {Op::norm_parts_grad, "norm_parts_grad", SplitRule::none, gradient, local, same_as_first,
     work_norm_parts_grad},
    {Op::route_grad, "route_grad", SplitRule::none, gradient, local, same_as_first, work_route},
    {Op::dispatch_grad, "dispatch_grad", SplitRule::none, gradient, local, infer_dispatch_grad,
     work_combine},
    {Op::expert_linear_grad_input, "expert_linear_grad_input", SplitRule::none, gradient, local,
     infer_expert_linear_grad_input, work_expert_linear_grad_input},
    {Op::expert_linear_grad_weight, "expert_linear_grad_weight", SplitRule::none, gradient, local,
     nothing, work_expert_linear_grad_weight},
    {Op::combine_grad, "combine_grad", SplitRule::none, gradient, local, infer_combine_grad,
     work_elementwise},
    {Op::fused, "fused", SplitRule::none, gradient, local, infer_fused, work_fused},
    {Op::cube_grad, "cube_grad", SplitRule::none, gradient, local, same_as_first, work_elementwise},
    {Op::silu_grad, "silu_grad", SplitRule::none, gradient, local, same_as_first, work_elementwise},
    {Op::mean_of_squares_grad, "mean_of_squares_grad", SplitRule::none, gradient, local,
     same_as_first, work_mean_of_squares_grad},
    {Op::inverse_root_grad, "inverse_root_grad", SplitRule::none, gradient, local, same_as_first,
     work_elementwise},
    {Op::row_dots, "row_dots", SplitRule::none, gradient, local, infer_column_of_rows,
     work_row_dots},
    {Op::scale_columns_grad, "scale_columns_grad", SplitRule::none, gradient, local, nothing,
     work_scale_columns_grad},
    {Op::rotate_half_grad, "rotate_half_grad", SplitRule::none, gradient, local, same_as_first,
     work_rotate_half},
    {Op::weigh_transposed, "weigh_transposed", SplitRule::none, gradient, local,
     infer_weigh_transposed, work_weigh},
    {Op::softmax_grad, "softmax_grad", SplitRule::none, gradient, local, same_as_first,
     work_elementwise},
    {Op::drop_probabilities_grad, "drop_probabilities_grad", SplitRule::none, gradient, local,
     same_as_first, work_dropout_grad},
    {Op::log_softmax_grad, "log_softmax_grad", SplitRule::none, gradient, local,
     infer_log_softmax_grad, work_log_softmax_grad},
    {Op::nll_loss_grad, "nll_loss_grad", SplitRule::none, gradient, local, same_as_first,
     work_zero},
    // images
    {Op::prepend_row_grad, "prepend_row_grad", SplitRule::none, gradient, local,
     infer_prepend_row_grad, work_rewrite},
    // relative positions
    {Op::relative_bias_grad, "relative_bias_grad", SplitRule::none, gradient, local, nothing,
     work_column_sum},
    {Op::zero, "zero", SplitRule::none, forward, local, nothing, work_zero},
    {Op::sum_loss, "sum_loss", SplitRule::none, forward, local, nothing, work_elementwise},
    {Op::sum_of_squares, "sum_of_squares", SplitRule::none, gradient, local, nothing,
     work_elementwise},
    {Op::update_loss_scale, "update_loss_scale", SplitRule::none, gradient, local, nothing,
     work_elementwise},
    {Op::lamb_norms, "lamb_norms", SplitRule::none, gradient, local, nothing, work_elementwise},
};
static_assert(std::size(table) == static_cast<std::size_t>(Op::count_));

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(table); ++i)
    if (static_cast<std::size_t>(table[i].op) != i) return false;
  return true;
}
static_assert(in_order(), "the table follows the enumerators");

}  // namespace

int patches_across(const Attributes& attributes) {
  return static_cast<int>(std::lround(std::sqrt(attributes.sequence_length - 1)));
}

const OpInfo& info(Op op) { return table[static_cast<std::size_t>(op)]; }
std::span<const OpInfo> op_table() { return table; }

bool takes_loss_scale(Op op) {
  return op == Op::cross_entropy_grad || op == Op::span_loss_grad || op == Op::route_grad ||
         op == Op::nll_loss_grad;
}

void append_kernels(const OpCall& call, CompilerLevel level, std::vector<Kernel>& kernels) {
  info(call.op).work(call, level, kernels);
}

}  // namespace meshwright
