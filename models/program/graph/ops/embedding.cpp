// Lists the operations that make rows from tokens, or from the patches of an image, that add
// embeddings to them, and that select rows.
#include "models/program/graph/documents.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

void infer_embedding(const Attributes&, In in, Out& out) {
  require(in[1].shape.rank == 2, "an embedding table is a matrix");
  out.push_back(matrix(in[0].shape.elements(), in[1].shape[1], in[1].dtype));
}

// Appends the type of x. The documents tensor may have all rows while this rank has a share of x.
void infer_add_position(const Attributes& a, In in, Out& out) {
  const std::int64_t rows = in[0].shape[0];
  require(!a.documents || is_documents(in.back(), rows) ||
              (a.sequence_parallel && is_documents(in.back(), rows * a.tensor_degree)),
          "documents are the last input");
  out.push_back(in[0]);
}

void work_embedding(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const double traffic = 2 * bytes(call.outputs[0]);
  memory_kernel(kernels, traffic);
  if (call.attributes.vocabulary_parallel && level != CompilerLevel::full)
    memory_kernel(kernels, traffic);  // other ranks' rows are set to zero afterwards
}

void work_add_row(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 2 * bytes(call.outputs[0]));
}

void infer_select_positions(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in[1].shape.elements(), in[0].shape[1], in[0].dtype));
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

// Appends a kernel that reads dy, and reads and writes, in fp32, one row of the table's gradient
// for each token.
void work_embedding_grad(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, bytes(call.inputs[1]) * (1 + 8 / element_size(call.inputs[1])));
}

void infer_select_positions_grad(const Attributes& a, In in, Out& out) {
  out.push_back(
      matrix(std::int64_t{a.micro_batch} * a.sequence_length, in[0].shape[1], in[0].dtype));
}

void infer_prepend_row_grad(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0] - a.micro_batch, in[0].shape[1], in[0].dtype));
}

void differentiate_embedding(Gradients& g, const Node& node, int dy) {
  g.make(Op::embedding_grad, node, {node.inputs[0], dy}, {g.of_parameter(node.inputs[1])});
}

void differentiate_add_position(Gradients& g, const Node& node, int dy) {
  TensorIds inputs{dy};
  if (node.attributes.documents) inputs.push_back(node.inputs[2]);
  if (g.trains(node.inputs[1]))
    g.make(Op::add_position_grad, node, inputs, {g.of_parameter(node.inputs[1])});
  g.pass_on(node, node.inputs[0], dy);
}

void differentiate_select_positions(Gradients& g, const Node& node, int dy) {
  g.make_and_pass(Op::select_positions_grad, node, {dy, node.inputs[1]});
}

void differentiate_prepend_row(Gradients& g, const Node& node, int dy) {
  g.make_and_pass(Op::prepend_row_grad, node, {dy}, {g.of_parameter(node.inputs[1])});
}

constexpr OpInfo rows[] = {
    {.op = Op::embedding,
     .name = "embedding",
     .takes = 2,
     .split = SplitRule::vocabulary,
     .infer = infer_embedding,
     .work = work_embedding,
     .differentiate = differentiate_embedding,
     .widening = moves},
    {.op = Op::add_position,
     .name = "add_position",
     .takes = {2, 3},
     .split = SplitRule::rows,
     .infer = infer_add_position,
     .work = work_add_row,
     .differentiate = differentiate_add_position,
     .rows = {.inputs = 0b1, .counts_positions = true},
     .widening = by_sequences(0b1, 0b1, from_first_token),
     .elements = {"$0 + $1"}},
    {.op = Op::add_row,
     .name = "add_row",
     .takes = 2,
     .split = SplitRule::rows,
     .infer = same_as_first,
     .work = work_add_row,
     .differentiate = add_parameter<Op::add_row_grad>,
     .rows = {.inputs = 0b1},
     .widening = by_rows(0b1, 0b1),
     .elements = {"$0 + $1"}},
    {.op = Op::select_positions,
     .name = "select_positions",
     .takes = 2,
     .split = SplitRule::whole,
     .infer = infer_select_positions,
     .work = work_elementwise,
     .differentiate = differentiate_select_positions,
     .widening = moves},
    {.op = Op::image_patches,
     .name = "image_patches",
     .split = SplitRule::whole,
     .infer = infer_image_patches,
     .work = work_elementwise,
     .widening = by_sequences(0b1, 0b1)},
    {.op = Op::prepend_row,
     .name = "prepend_row",
     .takes = 2,
     .split = SplitRule::first,
     .infer = infer_prepend_row,
     .work = work_rewrite,
     .differentiate = differentiate_prepend_row,
     .widening = moves},
    {.op = Op::embedding_grad,
     .name = "embedding_grad",
     .takes = 2,
     .infer = nothing,
     .work = work_embedding_grad,
     .widening = by_rows(0b11, 0)},
    {.op = Op::add_position_grad,
     .name = "add_position_grad",
     .takes = {1, 2},
     .infer = nothing,
     .work = work_column_sum,
     .widening = by_sequences(0b1, 0, from_first_token)},
    {.op = Op::add_row_grad,
     .name = "add_row_grad",
     .infer = nothing,
     .work = work_column_sum,
     .rows = {.inputs = 0b1},
     .widening = by_rows(0b1, 0)},
    {.op = Op::select_positions_grad,
     .name = "select_positions_grad",
     .takes = 2,
     .infer = infer_select_positions_grad,
     .work = work_elementwise,
     .widening = by_sequences(0b11, 0b1)},
    {.op = Op::prepend_row_grad,
     .name = "prepend_row_grad",
     .makes = 2,
     .infer = infer_prepend_row_grad,
     .work = work_rewrite,
     .widening = by_sequences(0b1, 0b1)},
};

}  // namespace

std::span<const OpInfo> embedding_ops() { return rows; }

}  // namespace meshwright::program
