// Lists the operations that an eager framework has in place of fused ones
// (models/compiler/passes/graph/eager_operations.h). Some models contain a few of them anyway.
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

// Returns the bytes of a tensor in fp32, to which an eager framework converts 16-bit tensors.
double wide_bytes(const TensorType& type) {
  return 4.0 * static_cast<double>(type.shape.elements());
}

// Appends the kernel that converts a 16-bit tensor to fp32 or back. A tensor in fp32 needs none.
void cast(KernelList& kernels, const TensorType& type) {
  if (element_size(type) < 4) memory_kernel(kernels, bytes(type) + wide_bytes(type));
}

TensorType of_heads(const Attributes& a, std::int64_t heads, Dtype dtype) {
  return {Shape{a.micro_batch * heads, a.sequence_length, a.head_dim}, dtype};
}

void infer_column_of_rows(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], 1, Dtype::f32));
}

// Appends the kernels of a mean of squares: conversion to fp32, squares, then their mean.
void work_mean_of_squares(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const double x = wide_bytes(call.inputs[0]);
  cast(kernels, call.inputs[0]);
  memory_kernel(kernels, 2 * x);
  memory_kernel(kernels, x);
}

void infer_scale_rows(const Attributes&, In in, Out& out) {
  require(in[1].shape == Shape{in[0].shape[0], 1}, "one factor for each row");
  out.push_back(in[0]);
}

// Appends the kernels that scale rows. They work in fp32 and convert the result, unless the factors
// are weights of experts.
void work_scale_rows(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  if (call.attributes.experts > 0) return work_elementwise(call, level, kernels);
  memory_kernel(kernels, 2 * wide_bytes(call.inputs[0]));
  cast(kernels, call.outputs[0]);
}

void infer_scale_columns(const Attributes&, In in, Out& out) {
  require(in[0].shape[-1] == in[1].shape[0], "one factor for each column");
  out.push_back(in[0]);
}

// Appends two kernels: one negates a half of the columns, one concatenates the halves.
void work_rotate_half(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const double x = bytes(call.inputs[0]);
  memory_kernel(kernels, x);
  memory_kernel(kernels, 2 * x);
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

void work_scores(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const Shape &q = call.inputs[0].shape, &k = call.inputs[1].shape;
  batched_gemm(kernels, q[0], {q[1], k[1], q[2]}, element_size(call.inputs[0]));
}

void infer_weigh_values(const Attributes& a, In in, Out& out) {
  out.push_back({Shape{std::int64_t{a.micro_batch} * a.heads, a.sequence_length, in[1].shape[2]},
                 in[0].dtype});
}

void work_weigh(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const Shape &w = call.inputs[0].shape, &x = call.inputs[1].shape;
  batched_gemm(kernels, w[0], {w[1], x[2], w[2]}, element_size(call.inputs[0]));
}

void infer_log_softmax(const Attributes&, In in, Out& out) {
  out.push_back({in[0].shape, Dtype::f32});
}

void work_log_softmax(const OpCall& call, CompilerLevel, KernelList& kernels) {
  cast(kernels, call.inputs[0]);
  memory_kernel(kernels, 2 * wide_bytes(call.inputs[0]));
}

void infer_nll_loss(const Attributes&, In in, Out& out) {
  require(in[0].shape[0] == in[1].shape.elements(), "one target per row of logits");
  out.push_back(column(in[0].shape[0], Dtype::f32));
}

// Appends the kernel of the loss. It reads one element and the target of each row, and writes the
// loss.
void work_nll_loss(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 3 * bytes(call.outputs[0]));
}

void infer_add_relative_bias(const Attributes& a, In in, Out& out) {
  require(in[1].shape == Shape{a.relative_buckets, a.heads}, "a column of the table for each head");
  out.push_back(in[0]);
}

// Appends a kernel that reads and writes the scores, and reads the bias of one sequence, which an
// eager framework has in memory.
void work_add_relative_bias(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, bytes(call.inputs[0]) * (2 + 1.0 / call.attributes.micro_batch));
}

void work_mean_of_squares_grad(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 2 * wide_bytes(call.inputs[0]));
}

// Appends the kernels of row_dots: one multiplies elements, one sums the products of each row.
void work_row_dots(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const double x = wide_bytes(call.inputs[0]);
  memory_kernel(kernels, 3 * x);
  memory_kernel(kernels, x);
}

void work_scale_columns_grad(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const double x = bytes(call.inputs[0]);
  memory_kernel(kernels, 3 * x);
  memory_kernel(kernels, x);
}

void infer_weigh_transposed(const Attributes& a, In in, Out& out) {
  out.push_back({Shape{std::int64_t{a.micro_batch} * a.kv_heads, a.sequence_length, in[1].shape[2]},
                 in[0].dtype});
}

void infer_log_softmax_grad(const Attributes& a, In in, Out& out) {
  out.push_back({in[0].shape, a.storage});
}

void work_log_softmax_grad(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 3 * wide_bytes(call.inputs[0]));
  cast(kernels, call.outputs[0]);
}

double batched_product_flops(const OpCall& call) {
  const Shape& a = call.inputs[0].shape;
  return 2.0 * static_cast<double>(a.elements()) * static_cast<double>(call.outputs[0].shape[2]);
}

void differentiate_multiply(Gradients& g, const Node& node, int dy) {
  const TensorIds& in = node.inputs;
  g.make_and_pass(Op::multiply, node, {dy, in[1]});
  g.pass_on(node, in[1], g.output(g.make(Op::multiply, node, {dy, in[0]})));
}

void differentiate_scale_rows(Gradients& g, const Node& node, int dy) {
  const TensorIds& in = node.inputs;
  g.make_and_pass(Op::scale_rows, node, {dy, in[1]});
  g.pass_on(node, in[1], g.output(g.make(Op::row_dots, node, {in[0], dy})));
}

void differentiate_scale_columns(Gradients& g, const Node& node, int dy) {
  const TensorIds& in = node.inputs;
  g.make_and_pass(Op::scale_columns, node, {dy, in[1]});
  if (g.trains(in[1])) g.make(Op::scale_columns_grad, node, {in[0], dy}, {g.of_parameter(in[1])});
}

void differentiate_split_heads(Gradients& g, const Node& node, int) {
  TensorIds of_heads;
  for (int id : node.outputs) of_heads.push_back(g.of(id));
  g.make_and_pass(Op::join_heads, node, of_heads);
}

void differentiate_scores(Gradients& g, const Node& node, int dy) {
  const TensorIds& in = node.inputs;
  g.make_and_pass(Op::weigh_values, node, {dy, in[1]});
  g.pass_on(node, in[1], g.output(g.make(Op::weigh_transposed, node, {dy, in[0]})));
}

void differentiate_weigh_values(Gradients& g, const Node& node, int dy) {
  const TensorIds& in = node.inputs;
  g.pass_on(node, in[1], g.output(g.make(Op::weigh_transposed, node, {in[0], dy})));
  g.make_and_pass(Op::scores, node, {dy, in[1]});
}

void differentiate_nll_loss(Gradients& g, const Node& node, int) {
  Node at = node;
  at.attributes.scale = g.scale_of(node);
  g.make_and_pass(Op::nll_loss_grad, at, {node.inputs[0], node.inputs[1]});
}

constexpr OpInfo rows[] = {
    {.op = Op::scale,
     .name = "scale",
     .split = SplitRule::elements,
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_of_dy<Op::scale>,  // linear and symmetric
     .rows = {.inputs = 0b1, .epilogue = true},
     .widening = by_rows(0b1, 0b1),
     .elements = {"$factor * $0"},
     .in_place = true,
     .of_scores = true},
    {.op = Op::add_constant,
     .name = "add_constant",
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_is_dy,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::cube,
     .name = "cube",
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_of_x_dy<Op::cube_grad>,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::multiply,
     .name = "multiply",
     .takes = 2,
     .split = SplitRule::elements,
     .infer = same_as_both,
     .work = work_elementwise,
     .differentiate = differentiate_multiply,
     .rows = {.inputs = 0b11, .epilogue = true},
     .widening = by_rows(0b11, 0b1),
     .elements = {"$0 * $1"},
     .in_place = true},
    {.op = Op::silu,
     .name = "silu",
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_of_x_dy<Op::silu_grad>,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::mean_of_squares,
     .name = "mean_of_squares",
     .infer = infer_column_of_rows,
     .work = work_mean_of_squares,
     .differentiate = dx_of_x_dy<Op::mean_of_squares_grad>,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::inverse_root,
     .name = "inverse_root",
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_of_y_dy<Op::inverse_root_grad>,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::scale_rows,
     .name = "scale_rows",
     .takes = 2,
     .split = SplitRule::experts,
     .infer = infer_scale_rows,
     .work = work_scale_rows,
     .differentiate = differentiate_scale_rows,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::scale_columns,
     .name = "scale_columns",
     .takes = 2,
     .infer = infer_scale_columns,
     .work = work_elementwise,
     .differentiate = differentiate_scale_columns,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::rotate_half,
     .name = "rotate_half",
     .infer = same_as_first,
     .work = work_rotate_half,
     .differentiate = dx_of_dy<Op::rotate_half_grad>,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::times_cosine,
     .name = "times_cosine",
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_of_dy<Op::times_cosine>,  // linear and symmetric
     .widening = by_sequences(0b1, 0b1)},
    {.op = Op::times_sine,
     .name = "times_sine",
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_of_dy<Op::times_sine>,  // linear and symmetric
     .widening = by_sequences(0b1, 0b1)},
    {.op = Op::split_heads,
     .name = "split_heads",
     .makes = {1, 3},
     .infer = infer_split_heads,
     .work = work_rewrite,
     .differentiate = differentiate_split_heads,
     .widening = moves},
    {.op = Op::join_heads,
     .name = "join_heads",
     .takes = {1, 3},
     .infer = infer_join_heads,
     .work = work_rewrite,
     .differentiate = dx_of_dy<Op::split_heads>,
     .widening = moves},
    {.op = Op::scores,
     .name = "scores",
     .takes = 2,
     .infer = infer_scores,
     .work = work_scores,
     .model_flops = batched_product_flops,
     .differentiate = differentiate_scores,
     .widening = by_sequences(0b11, 0b1),
     .of_scores = true},
    {.op = Op::add_alibi,
     .name = "add_alibi",
     .infer = same_as_first,
     .work = work_unary,
     .traffic = Traffic::scores,
     .differentiate = dx_is_dy,
     .widening = by_sequences(0b1, 0b1),
     .of_scores = true},
    {.op = Op::mask_scores,
     .name = "mask_scores",
     .takes = {1, 2},
     .infer = same_as_first,
     .work = work_unary,
     .traffic = Traffic::scores,
     .differentiate = dx_is_dy,  // hidden scores have probability 0, so their gradient is 0
     .widening = by_rows(0b1, 0b1),
     .of_scores = true},
    {.op = Op::softmax,
     .name = "softmax",
     .infer = same_as_first,
     .work = work_unary,
     .traffic = Traffic::scores,
     .differentiate = dx_of_y_dy<Op::softmax_grad>,
     .widening = by_rows(0b1, 0b1),
     .of_scores = true},
    {.op = Op::drop_probabilities,
     .name = "drop_probabilities",
     .infer = same_as_first,
     .work = work_dropout,
     .traffic = Traffic::scores,
     .differentiate = dx_of_dy<Op::drop_probabilities_grad>,
     .widening = by_sequences(0b1, 0b1),
     .of_scores = true},
    {.op = Op::weigh_values,
     .name = "weigh_values",
     .takes = 2,
     .infer = infer_weigh_values,
     .work = work_weigh,
     .model_flops = batched_product_flops,
     .differentiate = differentiate_weigh_values,
     .widening = by_sequences(0b11, 0b1)},
    {.op = Op::log_softmax,
     .name = "log_softmax",
     .infer = infer_log_softmax,
     .work = work_log_softmax,
     .traffic = Traffic::loss,
     .differentiate = dx_of_y_dy<Op::log_softmax_grad>,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::nll_loss,
     .name = "nll_loss",
     .takes = 2,
     .infer = infer_nll_loss,
     .work = work_nll_loss,
     .traffic = Traffic::loss,
     .differentiate = differentiate_nll_loss,
     .begins_backward = true,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::add_relative_bias,
     .name = "add_relative_bias",
     .takes = 2,
     .infer = infer_add_relative_bias,
     .work = work_add_relative_bias,
     .differentiate = add_parameter<Op::relative_bias_grad>,
     .widening = by_sequences(0b1, 0b1),
     .of_scores = true},
    {.op = Op::cube_grad,
     .name = "cube_grad",
     .takes = 2,
     .infer = same_as_first,
     .work = work_elementwise,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::silu_grad,
     .name = "silu_grad",
     .takes = 2,
     .infer = same_as_first,
     .work = work_elementwise,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::mean_of_squares_grad,
     .name = "mean_of_squares_grad",
     .takes = 2,
     .infer = same_as_first,
     .work = work_mean_of_squares_grad,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::inverse_root_grad,
     .name = "inverse_root_grad",
     .takes = 2,
     .infer = same_as_first,
     .work = work_elementwise,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::row_dots,
     .name = "row_dots",
     .takes = 2,
     .infer = infer_column_of_rows,
     .work = work_row_dots,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::scale_columns_grad,
     .name = "scale_columns_grad",
     .takes = 2,
     .infer = nothing,
     .work = work_scale_columns_grad,
     .widening = by_rows(0b11, 0),
     .overwrites_sums = true},
    {.op = Op::rotate_half_grad,
     .name = "rotate_half_grad",
     .infer = same_as_first,
     .work = work_rotate_half,
     .widening = by_rows(0b1, 0b1)},
    {.op = Op::weigh_transposed,
     .name = "weigh_transposed",
     .takes = 2,
     .infer = infer_weigh_transposed,
     .work = work_weigh,
     .widening = by_sequences(0b11, 0b1),
     .of_scores = true},
    {.op = Op::softmax_grad,
     .name = "softmax_grad",
     .takes = 2,
     .infer = same_as_first,
     .work = work_elementwise,
     .traffic = Traffic::scores,
     .widening = by_rows(0b11, 0b1),
     .of_scores = true},
    {.op = Op::drop_probabilities_grad,
     .name = "drop_probabilities_grad",
     .infer = same_as_first,
     .work = work_dropout_grad,
     .traffic = Traffic::scores,
     .widening = by_sequences(0b1, 0b1),
     .of_scores = true},
    {.op = Op::log_softmax_grad,
     .name = "log_softmax_grad",
     .takes = 2,
     .infer = infer_log_softmax_grad,
     .work = work_log_softmax_grad,
     .traffic = Traffic::loss,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::nll_loss_grad,
     .name = "nll_loss_grad",
     .takes = {2, 3},
     .infer = same_as_first,
     .work = work_write,
     .traffic = Traffic::loss,
     .takes_loss_scale = true,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::relative_bias_grad,
     .name = "relative_bias_grad",
     .infer = nothing,
     .work = work_column_sum,
     .widening = by_sequences(0b1, 0)},
};

}  // namespace

std::span<const OpInfo> eager_ops() { return rows; }

}  // namespace meshwright::program
