// Lists the operations of linear layers and their biases.
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"
#include "models/program/graph/quantized.h"

namespace meshwright::program {

namespace {

// Returns the number of columns that a framework has in place of `columns`. Meshwright pads the
// vocabulary, but frameworks do not unless ranks share it. With an odd vocabulary, their rows begin
// at any address, which makes matmuls slower.
std::int64_t as_frameworks_pad(std::int64_t columns, const OpCall& call, CompilerLevel level) {
  const std::int64_t vocabulary = call.attributes.vocabulary;
  return level != CompilerLevel::full && vocabulary > 0 && vocabulary < columns ? vocabulary
                                                                                : columns;
}

// Appends a matmul of the sizes `mnk` that moves `traffic` bytes.
void product_kernel(KernelList& kernels, const OpCall& call, const Shape& mnk, double traffic) {
  gemm(kernels, mnk[0], mnk[1], mnk[2], traffic);
  kernels.back().quantized = has_quantized_factors(call);
}

void infer_linear(const Attributes& a, In in, Out& out) {
  const Shape& weight = in[1].shape;
  require(weight.rank == 2 && weight[a.weight_in_out ? 0 : 1] == in[0].shape[1],
          "the weight's input size is the row's width");
  out.push_back(matrix(in[0].shape[0], weight[a.weight_in_out ? 1 : 0], made_type(a, in[0])));
}

void work_linear(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const std::int64_t columns = as_frameworks_pad(call.outputs[0].shape[1], call, level);
  product_kernel(kernels, call, {call.inputs[0].shape[0], columns, call.inputs[0].shape[1]},
                 bytes_of_all(call.inputs) + bytes(call.outputs[0]));
}

// Appends the kernel that adds a bias. Only eager frameworks have it: hand-fused kernels add the
// bias together with the residual that follows, and the training compiler fuses it.
void work_add_bias(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  if (level == CompilerLevel::none) memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

void infer_linear_grad_input(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], in[1].shape[a.weight_in_out ? 0 : 1], made_type(a, in[0])));
}

void work_linear_grad_input(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const std::int64_t columns = as_frameworks_pad(call.inputs[0].shape[1], call, level);
  product_kernel(kernels, call, {call.inputs[0].shape[0], call.outputs[0].shape[1], columns},
                 bytes_of_all(call.inputs) + bytes(call.outputs[0]));
}

// Appends the kernels of a weight gradient. The matmul reads and writes the sum of gradients. With
// accumulate_separately it makes a gradient in the type of its factors (attributes.made if they are
// quantized), which a second kernel adds to the sum.
void work_linear_grad_weight(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const TensorType &x = call.inputs[0], &dy = call.inputs[1];
  const int width = call.attributes.factors_transposed ? 0 : 1;
  const std::int64_t in = x.shape[width], depth = x.shape[1 - width];
  const double elements = static_cast<double>(in) * static_cast<double>(dy.shape[width]);
  const double sum_size = call.outputs.empty() ? 4 : element_size(call.outputs[0]);
  const double operands = bytes(x) + bytes(dy);
  const std::int64_t columns = as_frameworks_pad(dy.shape[width], call, level);
  if (!call.attributes.accumulate_separately) {
    product_kernel(kernels, call, {in, columns, depth}, operands + 2 * sum_size * elements);
    return;
  }
  const auto own_size = static_cast<double>(bytes_of(made_type(call.attributes, x)));
  product_kernel(kernels, call, {in, columns, depth}, operands + own_size * elements);
  memory_kernel(kernels, (own_size + 2 * sum_size) * elements);
}

double linear_flops(const OpCall& call) {
  return 2.0 * static_cast<double>(call.inputs[0].shape[0]) *
         static_cast<double>(call.inputs[0].shape[1]) *
         static_cast<double>(call.outputs[0].shape[1]);
}

constexpr OpInfo rows[] = {
    {.op = Op::linear,
     .name = "linear",
     .takes = {2, 7},
     .split = SplitRule::linear,
     .infer = infer_linear,
     .work = work_linear,
     .model_flops = linear_flops,
     .differentiate = differentiate_product<Op::linear_grad_input, Op::linear_grad_weight>,
     .rows = {.inputs = 0b1, .product = true},
     .widening = product},
    {.op = Op::add_bias,
     .name = "add_bias",
     .takes = 2,
     .split = SplitRule::rows,
     .infer = same_as_first,
     .work = work_add_bias,
     .differentiate = add_parameter<Op::bias_grad>,
     .rows = {.inputs = 0b1, .epilogue = true},
     .widening = by_rows(0b1, 0b1),
     .elements = {"$0 + $1"}},
    {.op = Op::linear_grad_input,
     .name = "linear_grad_input",
     .takes = {2, 6},
     .infer = infer_linear_grad_input,
     .work = work_linear_grad_input,
     .rows = {.inputs = 0b1, .product = true},
     .widening = product,
     .makes_input_gradient = true},
    {.op = Op::linear_grad_weight,
     .name = "linear_grad_weight",
     .takes = {2, 6},
     .infer = nothing,
     .work = work_linear_grad_weight,
     .rows = {.inputs = 0b11, .product = true},
     .widening = product,
     .overwrites_sums = true},
    {.op = Op::bias_grad,
     .name = "bias_grad",
     .infer = nothing,
     .work = work_column_sum,
     .rows = {.inputs = 0b1, .epilogue = true},
     .widening = by_rows(0b1, 0),
     .overwrites_sums = true},
};

}  // namespace

std::span<const OpInfo> product_ops() { return rows; }

}  // namespace meshwright::program
