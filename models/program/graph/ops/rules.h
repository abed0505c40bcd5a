// Declares rules that several operations share: for the types of their outputs, their work, their
// gradients, and how they are widened.
#pragma once

#include <span>
#include <vector>

#include "models/core/error.h"
#include "models/program/graph/gradients.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/kernels.h"

namespace meshwright::program {

using In = std::span<const TensorType>;
using Out = std::vector<TensorType>;

inline void require(bool condition, const char* why) { MESHWRIGHT_CHECK(condition, why); }

inline TensorType matrix(std::int64_t rows, std::int64_t columns, Dtype dtype) {
  return {Shape{rows, columns}, dtype};
}
inline TensorType column(std::int64_t rows, Dtype dtype) { return {Shape{rows}, dtype}; }

// These rules append the types of the outputs.
void same_as_first(const Attributes&, In in, Out& out);
void same_as_second(const Attributes&, In in, Out& out);
void same_as_both(const Attributes&, In in, Out& out);  // requires inputs of equal types
void first_and_second(const Attributes&, In in, Out& out);
void nothing(const Attributes&, In, Out&);  // the only outputs are parameter gradients

// These rules append kernels. Each comment says what memory a kernel reads and writes.
using WorkRule = void(const OpCall&, CompilerLevel, KernelList&);
WorkRule work_nothing;
WorkRule work_unary;        // reads the first input, writes as many bytes
WorkRule work_elementwise;  // reads all inputs, writes all outputs
WorkRule work_rewrite;      // reads as many bytes as it writes
WorkRule work_column_sum;   // reads the first input, writes the sums
WorkRule work_write;        // writes the outputs
// Appends the kernels of dropout. An eager framework writes a mask of one byte per element, and may
// convert to fp32 and back (Attributes::drops_in_fp32). At level `fused`, the mask joins the kernel
// that adds the bias and the residual, whose other traffic is counted there. The training compiler
// has no kernel here, because it recomputes the mask instead of saving it.
WorkRule work_dropout;
WorkRule work_dropout_grad;  // separate kernels at every level

// These rules append gradients, where x is the first input, y the first output, and dx and dy are
// their gradients.
inline void dx_is_dy(Gradients& g, const Node& node, int dy) {
  g.pass_on(node, node.inputs[0], dy);
}
template <Op grad>
void dx_of_dy(Gradients& g, const Node& node, int dy) {
  g.make_and_pass(grad, node, {dy});
}
template <Op grad>
void dx_of_x_dy(Gradients& g, const Node& node, int dy) {
  g.make_and_pass(grad, node, {node.inputs[0], dy});
}
template <Op grad>
void dx_of_y_dy(Gradients& g, const Node& node, int dy) {
  g.make_and_pass(grad, node, {node.outputs[0], dy});
}
// The rule of y = x + parameter: dy is the gradient of x, and operation `grad` adds dy to the
// gradient of the parameter.
template <Op grad>
void add_parameter(Gradients& g, const Node& node, int dy) {
  if (g.trains(node.inputs[1])) g.make(grad, node, {dy}, {g.of_parameter(node.inputs[1])});
  g.pass_on(node, node.inputs[0], dy);
}
// Appends the gradients of a linear layer. The input's gradient comes first, so that a collective
// or an earlier stage that waits for it can start while the weight's gradient is computed.
template <Op of_input, Op of_weight>
void differentiate_product(Gradients& g, const Node& node, int dy) {
  if (g.needs(node.inputs[0])) g.make_and_pass(of_input, node, {dy, node.inputs[1]});
  Node at = node;
  at.attributes.accumulate_separately = !g.fuses_accumulation();
  if (g.trains(node.inputs[1]))
    g.make(of_weight, at, {node.inputs[0], dy}, {g.of_parameter(node.inputs[1])});
  if (node.inputs.size() > 2 && g.trains(node.inputs[2]))
    g.make(Op::bias_grad, node, {dy}, {g.of_parameter(node.inputs[2])});
}

// These are rules of widening (widen.h). Operands whose bit is set are cut.
constexpr bool from_first_token = true;
constexpr WidenRule by_rows(std::uint32_t inputs, std::uint32_t outputs) {
  return {WidenRule::How::rows, inputs, outputs};
}
constexpr WidenRule by_sequences(std::uint32_t inputs, std::uint32_t outputs,
                                 bool counts_positions = false) {
  return {WidenRule::How::sequences, inputs, outputs, counts_positions};
}
constexpr WidenRule product{WidenRule::How::product};
constexpr WidenRule expert_product{WidenRule::How::expert_product};
constexpr WidenRule moves{WidenRule::How::moves};
constexpr WidenRule by_optimizer{WidenRule::How::by_optimizer};

}  // namespace meshwright::program
