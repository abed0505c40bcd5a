// Lists the operations of layers of experts (models/program/graph/experts.h).
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"
#include "models/program/graph/quantized.h"

namespace meshwright::program {

namespace {

std::int64_t all_slots(const Attributes& a) {
  if (is_dropless(a)) return a.expert_parts * a.expert_rows;
  return std::int64_t{a.experts} * a.micro_batch * a.expert_capacity;
}

// Appends one kernel for the matmuls of all groups of rows that this rank has, each [m,k] * [k,n]
// (`mnk`).
void expert_products(KernelList& kernels, const OpCall& call, const Shape& mnk, double traffic) {
  const double flops = 2.0 * call.attributes.experts * static_cast<double>(mnk.elements());
  kernels.push_back(
      {Kernel::Kind::gemm, mnk[0], mnk[1], mnk[2], call.attributes.experts, flops, traffic});
  kernels.back().quantized = has_quantized_factors(call);
}

// Returns the number of rows of a group on this rank, as predictions assume it. In a dropless
// layer, the rank is the most loaded one, and its groups have equal numbers of rows.
std::int64_t slots_of_expert(const OpCall& call) {
  const Attributes& a = call.attributes;
  if (is_dropless(a)) {
    const std::int64_t rows =
        std::min(static_cast<std::int64_t>(static_cast<double>(a.micro_batch) * a.sequence_length *
                                           a.experts_per_token * a.expert_imbalance),
                 a.expert_parts * a.expert_rows);
    return std::max<std::int64_t>(1, (rows + a.experts - 1) / a.experts);
  }
  return std::int64_t{call.attributes.micro_batch} * call.attributes.expert_capacity;
}

// Returns the model FLOPs of a layer of experts: those of all choices, or of all slots if there are
// fewer. Empty slots do not count.
double active_expert_flops(const OpCall& call) {
  const Attributes& a = call.attributes;
  const double chosen =
      static_cast<double>(a.micro_batch) * a.sequence_length * a.experts_per_token;
  return 2.0 * std::min(chosen, static_cast<double>(call.inputs[0].shape[0])) *
         static_cast<double>(call.inputs[0].shape[1]) *
         static_cast<double>(call.outputs[0].shape[1]);
}

void infer_route(const Attributes& a, In in, Out& out) {
  require(in[0].shape == Shape{std::int64_t{a.micro_batch} * a.sequence_length, a.experts},
          "one logit per expert, whole sequences");
  require(in.size() == 1 || in[1] == column(a.experts, in[0].dtype), "a bias for each expert");
  require(a.experts % a.expert_groups == 0 && a.expert_groups <= 32 &&
              a.groups_per_token <= a.expert_groups &&
              a.experts_per_token <= a.experts / a.expert_groups * a.groups_per_token,
          "groups with enough experts to choose from");
  require(!a.sigmoid_scores || a.balance == 0, "a balancing loss of probabilities");
  out.push_back(matrix(in[0].shape[0], a.experts_per_token, Dtype::f32));
  out.push_back(matrix(in[0].shape[0], a.experts_per_token, Dtype::i32));
  out.push_back(column(a.micro_batch, Dtype::f32));
  if (is_dropless(a)) out.push_back(matrix(a.experts, 1, Dtype::i32));
}

// Appends the kernels of the operation `route`: softmax, the choice, and the slots of tokens. Eager
// frameworks have five kernels, Megatron-LM has two fused ones, and the training compiler has one.
void work_route(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const double logits = 4.0 * static_cast<double>(call.inputs[0].shape.elements());
  const int launches = level == CompilerLevel::none ? 5 : level == CompilerLevel::fused ? 2 : 1;
  for (int i = 0; i < launches; ++i) memory_kernel(kernels, 2 * logits);
}

void infer_dispatch(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(all_slots(a), in[0].shape[1], in[0].dtype));
}

void infer_expert_linear(const Attributes& a, In in, Out& out) {
  const Shape& weight = in[1].shape;
  require(weight.rank == 3 && weight[a.weight_in_out ? 1 : 2] == in[0].shape[1],
          "a matrix for each expert");
  require(in[0].shape[0] == all_slots(a) && a.experts % weight[0] == 0, "whole groups of slots");
  require(!is_dropless(a) ||
              (in.size() == 3 && in[2] == matrix(a.experts, 1, Dtype::i32) && !a.weight_in_out),
          "the rows of each group");
  out.push_back(matrix(in[0].shape[0], weight[a.weight_in_out ? 2 : 1], made_type(a, in[0])));
}

void work_expert_linear(const OpCall& call, CompilerLevel, KernelList& kernels) {
  expert_products(kernels, call,
                  {slots_of_expert(call), call.outputs[0].shape[1], call.inputs[0].shape[1]},
                  bytes_of_all(call.inputs) + bytes(call.outputs[0]));
}

void infer_add_expert_bias(const Attributes& a, In in, Out& out) {
  require(
      in[1].shape.rank == 2 && in[1].shape[1] == in[0].shape[1] && a.experts % in[1].shape[0] == 0,
      "a bias as wide as the rows for each expert");
  require(!is_dropless(a) || (in.size() == 3 && in[2] == matrix(a.experts, 1, Dtype::i32)),
          "the rows of each group");
  out.push_back(in[0]);
}

void differentiate_add_expert_bias(Gradients& g, const Node& node, int dy) {
  TensorIds inputs = {dy};
  if (node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
  if (g.trains(node.inputs[1]))
    g.make(Op::expert_bias_grad, node, inputs, {g.of_parameter(node.inputs[1])});
  g.pass_on(node, node.inputs[0], dy);
}

void work_count_choices(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, bytes(call.inputs[0]) + 2 * bytes(call.outputs[0]));
}

void infer_combine(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in.back().shape[0], in[0].shape[1], in[0].dtype));
}

// Appends the kernel that combines. For every token, it reads one row from each of the token's
// slots and writes one row.
void work_combine(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, bytes(call.outputs[0]) * (1 + call.attributes.experts_per_token));
}

void infer_dispatch_grad(const Attributes&, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], in[1].shape[1], in[1].dtype));
}

void infer_expert_linear_grad_input(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], in[1].shape[a.weight_in_out ? 1 : 2], made_type(a, in[0])));
}

void work_expert_linear_grad_input(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_expert_linear(call, level, kernels);
}

// Appends the kernels of the weight gradients. The matmuls read and write the sum, or make the
// gradient in the factors' type, which a second kernel adds to the sum.
void work_expert_linear_grad_weight(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const TensorType &x = call.inputs[0], &dy = call.inputs[1], &sum = call.outputs[0];
  const bool separate = call.attributes.accumulate_separately;
  const double elements = static_cast<double>(sum.shape.elements());
  const double own = static_cast<double>(bytes_of(made_type(call))) * elements;
  expert_products(kernels, call, {sum.shape[2], sum.shape[1], slots_of_expert(call)},
                  bytes(x) + bytes(dy) + (separate ? own : 2 * bytes(sum)));
  if (separate) memory_kernel(kernels, own + 2 * bytes(sum));
}

// Appends the gradient of the operation `route`. If it only_balances(), there is no gradient of its
// weights. Their factor is 0, so the weights themselves serve as that input.
void differentiate_route(Gradients& g, const Node& node, int dy) {
  if (only_balances(node.attributes)) dy = node.outputs[0];
  Node at = node;
  at.attributes.scale = g.scale();
  TensorIds accumulated;
  if (node.inputs.size() > 1) accumulated.push_back(g.of_parameter(node.inputs[1]));
  TensorIds inputs = {node.inputs[0], node.outputs[1], dy};
  if (is_dropless(node.attributes)) inputs.push_back(node.outputs[3]);
  g.make_and_pass(Op::route_grad, at, inputs, accumulated);
}

void differentiate_expert_linear(Gradients& g, const Node& node, int dy) {
  if (!is_dropless(node.attributes))
    return differentiate_product<Op::expert_linear_grad_input, Op::expert_linear_grad_weight>(
        g, node, dy);
  const TensorIds& in = node.inputs;
  if (g.needs(in[0])) g.make_and_pass(Op::expert_linear_grad_input, node, {dy, in[1], in[2]});
  if (g.trains(in[1]))
    g.make(Op::expert_linear_grad_weight, node, {in[0], dy, in[2]}, {g.of_parameter(in[1])});
}

void differentiate_dispatch(Gradients& g, const Node& node, int dy) {
  g.make_and_pass(Op::dispatch_grad, node, {node.inputs[1], dy});
}

void differentiate_combine(Gradients& g, const Node& node, int dy) {
  const TensorIds& in = node.inputs;
  if (in.size() == 2) return g.make_and_pass(Op::dispatch, node, {dy, in[1]});
  const int grad = g.make(Op::combine_grad, node, {in[0], in[1], in[2], dy});
  for (int i = 0; i < 2; ++i) g.pass_on(node, in[i], g.output(grad, i));
}

void infer_gate_rows(const Attributes&, In in, Out& out) {
  require(in[1] == matrix(in[0].shape[0], 1, in[0].dtype), "one gate for each row");
  out.push_back(in[0]);
}

// Appends the kernel of gated rows. An eager framework has a separate kernel for the sigmoid.
void work_gate_rows(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_elementwise(call, level, kernels);
  if (level == CompilerLevel::none) memory_kernel(kernels, 2 * bytes(call.inputs[1]));
}

// Appends the kernels of the gradient of gated rows. In an eager framework they are the gradients
// of both factors, the sum of each row, and the gradient of the sigmoid.
void work_gate_rows_grad(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_elementwise(call, level, kernels);
  if (level != CompilerLevel::none) return;
  memory_kernel(kernels, 3 * bytes(call.inputs[0]));
  memory_kernel(kernels, bytes(call.inputs[0]));
  memory_kernel(kernels, 3 * bytes(call.inputs[1]));
}

void differentiate_gate_rows(Gradients& g, const Node& node, int dy) {
  const TensorIds& in = node.inputs;
  const int grad = g.make(Op::gate_rows_grad, node, {in[0], in[1], dy});
  for (int i = 0; i < 2; ++i) g.pass_on(node, in[i], g.output(grad, i));
}

constexpr OpInfo rows[] = {
    {.op = Op::route,
     .name = "route",
     .takes = {1, 2},
     .makes = {3, 4},
     .split = SplitRule::experts,
     .infer = infer_route,
     .work = work_route,
     .differentiate = differentiate_route},
    {.op = Op::dispatch,
     .name = "dispatch",
     .takes = 2,
     .split = SplitRule::experts,
     .infer = infer_dispatch,
     .work = work_rewrite,
     .differentiate = differentiate_dispatch,
     .widening = moves},
    {.op = Op::expert_exchange,
     .name = "expert_exchange",
     .communication = {Communication::Over::expert, Communication::What::exchange},
     .infer = same_as_first,
     .work = work_nothing,
     .differentiate = dx_of_dy<Op::expert_exchange>},
    {.op = Op::expert_linear,
     .name = "expert_linear",
     .takes = {2, 6},
     .split = SplitRule::experts,
     .infer = infer_expert_linear,
     .work = work_expert_linear,
     .model_flops = active_expert_flops,
     .differentiate = differentiate_expert_linear,
     .widening = expert_product},
    {.op = Op::add_expert_bias,
     .name = "add_expert_bias",
     .takes = {2, 3},
     .split = SplitRule::experts,
     .infer = infer_add_expert_bias,
     .work = work_elementwise,
     .differentiate = differentiate_add_expert_bias},
    {.op = Op::count_choices,
     .name = "count_choices",
     .takes = {1, 2},
     .infer = nothing,
     .work = work_count_choices,
     .widening = moves},
    {.op = Op::combine,
     .name = "combine",
     .takes = {2, 3},
     .split = SplitRule::experts,
     .infer = infer_combine,
     .work = work_combine,
     .differentiate = differentiate_combine},
    {.op = Op::gate_rows,
     .name = "gate_rows",
     .takes = 2,
     .split = SplitRule::elements,
     .infer = infer_gate_rows,
     .work = work_gate_rows,
     .differentiate = differentiate_gate_rows,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::route_grad,
     .name = "route_grad",
     .takes = {3, 5},
     .makes = {1, 2},
     .infer = same_as_first,
     .work = work_route,
     .takes_loss_scale = true},
    {.op = Op::dispatch_grad,
     .name = "dispatch_grad",
     .takes = 2,
     .infer = infer_dispatch_grad,
     .work = work_combine},
    {.op = Op::expert_linear_grad_input,
     .name = "expert_linear_grad_input",
     .takes = {2, 6},
     .infer = infer_expert_linear_grad_input,
     .work = work_expert_linear_grad_input,
     .widening = expert_product,
     .makes_input_gradient = true},
    {.op = Op::expert_linear_grad_weight,
     .name = "expert_linear_grad_weight",
     .takes = {2, 6},
     .infer = nothing,
     .work = work_expert_linear_grad_weight,
     .widening = expert_product,
     .overwrites_sums = true},
    {.op = Op::expert_bias_grad,
     .name = "expert_bias_grad",
     .takes = {1, 2},
     .infer = nothing,
     .work = work_column_sum},
    {.op = Op::combine_grad,
     .name = "combine_grad",
     .takes = 4,
     .makes = 2,
     .infer = first_and_second,
     .work = work_elementwise},
    {.op = Op::gate_rows_grad,
     .name = "gate_rows_grad",
     .takes = 3,
     .makes = 2,
     .infer = first_and_second,
     .work = work_gate_rows_grad,
     .widening = by_rows(0b111, 0b11)},
};

}  // namespace

std::span<const OpInfo> experts_ops() { return rows; }

}  // namespace meshwright::program
