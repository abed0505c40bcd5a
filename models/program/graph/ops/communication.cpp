// Lists the operations that communicate between the ranks of a tensor or context group, and those
// that reorder rows and columns for this.
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

void infer_gather_rows(const Attributes& a, In in, Out& out) {
  out.push_back(in[0]);
  out.back().shape[0] *= a.tensor_degree;
}

void infer_scatter_rows(const Attributes& a, In in, Out& out) {
  require(in[0].shape[0] % a.tensor_degree == 0, "the tensor degree divides the rows");
  out.push_back(matrix(in[0].shape[0] / a.tensor_degree, in[0].shape[1], in[0].dtype));
}

void infer_context_gather(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0] * a.context_degree, in[0].shape[1], in[0].dtype));
}

// Appends the type of the input, which has a part for each rank of the context group.
void infer_parts(const Attributes& a, In in, Out& out) {
  require(in[0].shape[0] == std::int64_t{a.context_degree} * a.micro_batch * a.sequence_length,
          "the tokens of all ranks");
  out.push_back(in[0]);
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

void infer_context_scatter(const Attributes& a, In in, Out& out) {
  require(in[0].shape[0] % a.context_degree == 0, "one part for each rank");
  out.push_back(matrix(in[0].shape[0] / a.context_degree, in[0].shape[1], in[0].dtype));
}

void differentiate_sequence_gather(Gradients& g, const Node& node, int dy) {
  const bool whole = node.attributes.gradient_is_whole;
  g.make_and_pass(whole ? Op::sequence_slice : Op::sequence_scatter, node, {dy});
}

// Appends nothing, because the operations that read the statistics include their gradient in their
// own rules.
void no_gradient(Gradients&, const Node&, int) {}

using Over = Communication::Over;
using What = Communication::What;

constexpr OpInfo rows[] = {
    {.op = Op::tensor_copy,
     .name = "tensor_copy",
     .infer = same_as_first,
     .work = work_nothing,
     .differentiate = dx_of_dy<Op::tensor_reduce>},
    {.op = Op::tensor_reduce,
     .name = "tensor_reduce",
     .communication = {Over::tensor, What::sum},
     .infer = same_as_first,
     .work = work_nothing,
     .differentiate = dx_is_dy},
    {.op = Op::tensor_maximum,
     .name = "tensor_maximum",
     .communication = {Over::tensor, What::maximum},
     .infer = same_as_first,
     .work = work_nothing},
    {.op = Op::sequence_gather,
     .name = "sequence_gather",
     .communication = {Over::tensor, What::gather},
     .infer = infer_gather_rows,
     .work = work_nothing,
     .differentiate = differentiate_sequence_gather},
    {.op = Op::sequence_scatter,
     .name = "sequence_scatter",
     .communication = {Over::tensor, What::scatter},
     .infer = infer_scatter_rows,
     .work = work_nothing,
     .differentiate = dx_of_dy<Op::sequence_gather>},
    {.op = Op::sequence_slice,
     .name = "sequence_slice",
     .infer = infer_scatter_rows,
     .work = work_elementwise,
     .differentiate = dx_of_dy<Op::sequence_gather>,
     .widening = moves},
    {.op = Op::stats_gather,
     .name = "stats_gather",
     .communication = {Over::tensor, What::gather},
     .infer = infer_gather_rows,
     .work = work_nothing,
     .differentiate = no_gradient,
     .begins_backward = true},
    {.op = Op::context_shift,
     .name = "context_shift",
     .communication = {Over::context, What::shift},
     .infer = same_as_first,
     .work = work_nothing},
    {.op = Op::context_gather,
     .name = "context_gather",
     .communication = {Over::context, What::gather},
     .infer = infer_context_gather,
     .work = work_nothing},
    {.op = Op::context_exchange,
     .name = "context_exchange",
     .communication = {Over::context, What::exchange},
     .infer = infer_parts,
     .work = work_nothing,
     .differentiate = dx_of_dy<Op::context_exchange>},
    {.op = Op::parts_to_sequence,
     .name = "parts_to_sequence",
     .infer = infer_parts,
     .work = work_rewrite,
     .differentiate = dx_of_dy<Op::sequence_to_parts>,
     .widening = moves},
    {.op = Op::sequence_to_parts,
     .name = "sequence_to_parts",
     .infer = infer_parts,
     .work = work_rewrite,
     .differentiate = dx_of_dy<Op::parts_to_sequence>,
     .widening = moves},
    {.op = Op::columns_to_parts,
     .name = "columns_to_parts",
     .infer = infer_columns_to_parts,
     .work = work_unary,
     .differentiate = dx_of_dy<Op::parts_to_columns>,
     .makes_input_gradient = true},
    {.op = Op::parts_to_columns,
     .name = "parts_to_columns",
     .infer = infer_parts_to_columns,
     .work = work_unary,
     .differentiate = dx_of_dy<Op::columns_to_parts>,
     .makes_input_gradient = true},
    {.op = Op::context_scatter,
     .name = "context_scatter",
     .communication = {Over::context, What::scatter},
     .infer = infer_context_scatter,
     .work = work_nothing},
};

}  // namespace

std::span<const OpInfo> communication_ops() { return rows; }

}  // namespace meshwright::program
