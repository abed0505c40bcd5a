// Lists the norms of rows. A rank has whole rows, or a share of the columns of each row.
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

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

void infer_head_norm(const Attributes& a, In in, Out& out) {
  const std::int64_t width = in.size() > 1 ? in[1].shape[0] : a.head_dim;
  require(in.size() > 1 || !a.one_plus_weight, "no weight, nothing to add to it");
  require(width > 0 && in[0].shape[-1] % width == 0, "a norm of heads has a head's width");
  out.push_back(in[0]);
  out.push_back(matrix(in[0].shape[0], in[0].shape[-1] / width, Dtype::f32));
}

// Appends the kernel of a norm of heads, or those of an eager framework, which squares, takes
// means, and multiplies by their inverse roots and by the weight.
void work_head_norm(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const double x = bytes(call.inputs[0]);
  memory_kernel(kernels, 2 * x);
  if (level != CompilerLevel::none) return;
  memory_kernel(kernels, x);
  memory_kernel(kernels, 2 * x);
  memory_kernel(kernels, 2 * x);
}

void infer_norm_stats(const Attributes&, In in, Out& out) {
  out.push_back(matrix(2, in[0].shape[0], Dtype::f32));
}

void work_norm_stats(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, bytes(call.inputs[0]));
}

void infer_norm_parts(const Attributes& a, In in, Out& out) {
  require(in[0].shape[-1] == in[1].shape[0], "the norm's weight has the row's width");
  require(in.back().shape == Shape{std::int64_t{2} * a.tensor_degree, in[0].shape[0]},
          "two statistics of every rank for each row");
  out.push_back(in[0]);
  out.push_back(matrix(in[0].shape[0], a.rms_norm ? 1 : 2, Dtype::f32));
}

// Appends the kernels of a norm's gradient: one makes dx from x and dy. If weight or bias are
// trained, another one sums over the rows.
void work_norm_grad(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const double x = bytes(call.inputs[0]);
  memory_kernel(kernels, 3 * x);
  if (call.outputs.size() > 1) memory_kernel(kernels, 2 * x);
}

// Appends a kernel that sums over the columns of each row. If weight or bias are trained, another
// one sums over the rows.
void work_norm_parts_sums(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 2 * bytes(call.inputs[0]));
  if (call.outputs.size() > 1) memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

void work_norm_parts_grad(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 3 * bytes(call.inputs[0]));
}

template <Op grad>
void differentiate_norm(Gradients& g, const Node& node, int dy) {
  TensorIds accumulated;
  for (int i = 1; i < node.inputs.size(); ++i)
    accumulated.push_back(g.of_parameter(node.inputs[i]));
  g.make_and_pass(grad, node, {node.inputs[0], node.inputs[1], node.outputs[1], dy}, accumulated);
}

void differentiate_head_norm(Gradients& g, const Node& node, int dy) {
  TensorIds inputs{node.inputs[0], node.outputs[1], dy}, accumulated;
  if (node.inputs.size() > 1) {
    inputs.push_back(node.inputs[1]);
    accumulated.push_back(g.of_parameter(node.inputs[1]));
  }
  g.make_and_pass(Op::head_norm_grad, node, inputs, accumulated);
}

// Appends the gradient of norm_parts. A row's gradient needs two sums over all its columns, so the
// ranks add up their own sums. The rule includes the gradient that flows through the statistics.
void differentiate_norm_parts(Gradients& g, const Node& node, int dy) {
  const int x = node.inputs[0], weight = node.inputs[1], saved = node.outputs[1];
  TensorIds accumulated;
  for (int i = 1; i + 1 < node.inputs.size(); ++i)
    accumulated.push_back(g.of_parameter(node.inputs[i]));
  const int own = g.make(Op::norm_parts_sums, node, {x, weight, saved, dy}, accumulated);
  const int sums = g.make(Op::tensor_reduce, node, {g.output(own)});
  g.make_and_pass(Op::norm_parts_grad, node, {x, weight, saved, dy, g.output(sums)});
}

constexpr OpInfo rows[] = {
    {.op = Op::layer_norm,
     .name = "layer_norm",
     .takes = {2, 3},
     .makes = 2,
     .split = SplitRule::rows,
     .infer = infer_layer_norm,
     .work = work_unary,
     .differentiate = differentiate_norm<Op::layer_norm_grad>,
     .rows = {.inputs = 0b1},
     .widening = by_rows(0b1, 0b11),
     .makes_8_bits = true},
    {.op = Op::rms_norm,
     .name = "rms_norm",
     .takes = 2,
     .makes = 2,
     .split = SplitRule::rows,
     .infer = infer_rms_norm,
     .work = work_unary,
     .differentiate = differentiate_norm<Op::rms_norm_grad>,
     .rows = {.inputs = 0b1},
     .widening = by_rows(0b1, 0b11),
     .makes_8_bits = true},
    {.op = Op::head_norm,
     .name = "head_norm",
     .takes = {1, 2},
     .makes = 2,
     .split = SplitRule::heads,
     .infer = infer_head_norm,
     .work = work_head_norm,
     .differentiate = differentiate_head_norm,
     .widening = by_rows(0b1, 0b11)},
    {.op = Op::norm_stats,
     .name = "norm_stats",
     .infer = infer_norm_stats,
     .work = work_norm_stats},
    {.op = Op::norm_parts,
     .name = "norm_parts",
     .takes = {3, 4},
     .makes = 2,
     .infer = infer_norm_parts,
     .work = work_unary,
     .differentiate = differentiate_norm_parts},
    {.op = Op::layer_norm_grad,
     .name = "layer_norm_grad",
     .takes = 4,
     .makes = {1, 3},
     .infer = same_as_first,
     .work = work_norm_grad,
     .rows = {.inputs = 0b1101},
     .widening = by_rows(0b1101, 0b1),
     .overwrites_sums = true},
    {.op = Op::rms_norm_grad,
     .name = "rms_norm_grad",
     .takes = 4,
     .makes = {1, 2},
     .infer = same_as_first,
     .work = work_norm_grad,
     .rows = {.inputs = 0b1101},
     .widening = by_rows(0b1101, 0b1),
     .overwrites_sums = true},
    {.op = Op::head_norm_grad,
     .name = "head_norm_grad",
     .takes = {3, 4},
     .makes = {1, 2},
     .infer = same_as_first,
     .work = work_norm_grad,
     .widening = by_rows(0b111, 0b1),
     .overwrites_sums = true},
    {.op = Op::norm_parts_sums,
     .name = "norm_parts_sums",
     .takes = 4,
     .makes = {1, 3},
     .infer = infer_norm_stats,
     .work = work_norm_parts_sums,
     .overwrites_sums = true},
    {.op = Op::norm_parts_grad,
     .name = "norm_parts_grad",
     .takes = 5,
     .infer = same_as_first,
     .work = work_norm_parts_grad},
};

}  // namespace

std::span<const OpInfo> norm_ops() { return rows; }

}  // namespace meshwright::program
