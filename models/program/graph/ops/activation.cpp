// Lists the activation functions, which work element by element.
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

void work_gelu(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_unary(call, level, kernels);
  kernels.back().gelus = static_cast<double>(call.outputs[0].shape.elements());
}

void work_swiglu(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 3 * bytes(call.inputs[0]));
}

// Appends the kernel of squared ReLU. An eager framework squares in a second kernel.
void work_squared_relu(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_unary(call, level, kernels);
  if (level == CompilerLevel::none) work_unary(call, level, kernels);
}

void work_squared_relu_grad(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_elementwise(call, level, kernels);
  if (level == CompilerLevel::none) work_elementwise(call, level, kernels);
}

// Appends the kernel of GELU's gradient. It computes the same tanh or erf as GELU, and its
// derivative, which costs 1.4 GELUs.
void work_gelu_grad(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  constexpr double longer = 1.4;
  work_elementwise(call, level, kernels);
  kernels.back().gelus = longer * static_cast<double>(call.outputs[0].shape.elements());
}

void work_swiglu_grad(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 5 * bytes(call.inputs[0]));
}

// Appends one kernel, or those of an eager framework, which clamps both inputs, multiplies by
// alpha, takes the sigmoid, adds 1 and multiplies twice, each in a kernel of its own. The backward
// pass of such a framework has the same number of kernels and two in which autograd adds gradients.
void work_clamped_swiglu(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_elementwise(call, level, kernels);
  constexpr int more = 6;
  for (int i = 0; i < more && level == CompilerLevel::none; ++i)
    memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

void work_clamped_swiglu_grad(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_elementwise(call, level, kernels);
  constexpr int more = 8;
  for (int i = 0; i < more && level == CompilerLevel::none; ++i)
    memory_kernel(kernels, 3 * bytes(call.inputs[0]));
}

template <Op grad_op>
void differentiate_swiglu(Gradients& g, const Node& node, int dy) {
  const int grad = g.make(grad_op, node, {node.inputs[0], node.inputs[1], dy});
  for (int i = 0; i < 2; ++i) g.pass_on(node, node.inputs[i], g.output(grad, i));
}

constexpr OpInfo rows[] = {
    {.op = Op::gelu,
     .name = "gelu",
     .split = SplitRule::elements,
     .infer = same_as_first,
     .work = work_gelu,
     .differentiate = dx_of_x_dy<Op::gelu_grad>,
     .rows = {.inputs = 0b1, .epilogue = true},
     .widening = by_rows(0b1, 0b1),
     .elements = {"$gelu($0)"},
     .in_place = true,
     .makes_8_bits = true},
    {.op = Op::relu,
     .name = "relu",
     .split = SplitRule::elements,
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_of_x_dy<Op::relu_grad>,
     .rows = {.inputs = 0b1, .epilogue = true},
     .widening = by_rows(0b1, 0b1),
     .elements = {"$0 < 0.0f ? 0.0f : $0"},
     .in_place = true,
     .makes_8_bits = true},
    {.op = Op::squared_relu,
     .name = "squared_relu",
     .split = SplitRule::elements,
     .infer = same_as_first,
     .work = work_squared_relu,
     .differentiate = dx_of_x_dy<Op::squared_relu_grad>,
     .rows = {.inputs = 0b1, .epilogue = true},
     .widening = by_rows(0b1, 0b1),
     .elements = {"$0 < 0.0f ? 0.0f : $0 * $0"},
     .in_place = true,
     .makes_8_bits = true},
    {.op = Op::tanh,
     .name = "tanh",
     .split = SplitRule::elements,
     .infer = same_as_first,
     .work = work_unary,
     .differentiate = dx_of_y_dy<Op::tanh_grad>,
     .rows = {.inputs = 0b1},
     .widening = by_rows(0b1, 0b1),
     .elements = {"tanhf($0)"},
     .in_place = true,
     .of_scores = true},
    {.op = Op::swiglu,
     .name = "swiglu",
     .takes = 2,
     .split = SplitRule::elements,
     .infer = same_as_both,
     .work = work_swiglu,
     .differentiate = differentiate_swiglu<Op::swiglu_grad>,
     .rows = {.inputs = 0b11},
     .widening = by_rows(0b11, 0b1),
     .elements = {"silu($0) * $1"},
     .makes_8_bits = true},
    {.op = Op::clamped_swiglu,
     .name = "clamped_swiglu",
     .takes = 2,
     .split = SplitRule::elements,
     .infer = same_as_both,
     .work = work_clamped_swiglu,
     .differentiate = differentiate_swiglu<Op::clamped_swiglu_grad>,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::gelu_grad,
     .name = "gelu_grad",
     .takes = 2,
     .infer = same_as_first,
     .work = work_gelu_grad,
     .rows = {.inputs = 0b11, .epilogue = true},
     .widening = by_rows(0b11, 0b1),
     .elements = {"$1 * $gelu_slope($0)"},
     .in_place = true,
     .makes_8_bits = true},
    {.op = Op::relu_grad,
     .name = "relu_grad",
     .takes = 2,
     .infer = same_as_first,
     .work = work_elementwise,
     .rows = {.inputs = 0b11, .epilogue = true},
     .widening = by_rows(0b11, 0b1),
     .elements = {"$0 > 0.0f ? $1 : 0.0f"},
     .in_place = true,
     .makes_8_bits = true},
    {.op = Op::squared_relu_grad,
     .name = "squared_relu_grad",
     .takes = 2,
     .infer = same_as_first,
     .work = work_squared_relu_grad,
     .rows = {.inputs = 0b11, .epilogue = true},
     .widening = by_rows(0b11, 0b1),
     .elements = {"$0 > 0.0f ? 2.0f * $0 * $1 : 0.0f"},
     .in_place = true,
     .makes_8_bits = true},
    {.op = Op::tanh_grad,
     .name = "tanh_grad",
     .takes = 2,
     .infer = same_as_second,
     .work = work_elementwise,
     .rows = {.inputs = 0b11},
     .widening = by_rows(0b11, 0b1),
     .elements = {"$1 * (1.0f - $0 * $0)"},
     .in_place = true,
     .of_scores = true},
    {.op = Op::swiglu_grad,
     .name = "swiglu_grad",
     .takes = 3,
     .makes = 2,
     .infer = first_and_second,
     .work = work_swiglu_grad,
     .rows = {.inputs = 0b111},
     .widening = by_rows(0b111, 0b11),
     .elements = {"$2 * $1 * silu_slope($0)", "$2 * silu($0)"},
     .makes_8_bits = true},
    {.op = Op::clamped_swiglu_grad,
     .name = "clamped_swiglu_grad",
     .takes = 3,
     .makes = 2,
     .infer = first_and_second,
     .work = work_clamped_swiglu_grad,
     .widening = by_rows(0b111, 0b11)},
};

}  // namespace

std::span<const OpInfo> activation_ops() { return rows; }

}  // namespace meshwright::program
