// Lists the losses, which training minimizes, and their gradients, with which the backward pass
// begins.
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

void infer_cross_entropy(const Attributes&, In in, Out& out) {
  require(in[0].shape[0] == in[1].shape.elements(), "one target per row of logits");
  out.push_back(column(in[0].shape[0], Dtype::f32));
  out.push_back(column(in[0].shape[0], Dtype::f32));
}

// Appends the kernels of Megatron-LM's vocab_parallel_cross_entropy. It casts 16-bit logits to
// fp32, finds their maximum, subtracts it in place, writes the exponentials, adds them up, and
// divides them in place.
void work_loss_by_operations(const TensorType& logits, KernelList& kernels) {
  const double wide = 4.0 * static_cast<double>(logits.shape.elements());
  if (element_size(logits) < 4) memory_kernel(kernels, bytes(logits) + wide);
  for (const double passes : {1, 2, 2, 1, 2}) memory_kernel(kernels, passes * wide);
}

// Appends the kernels of a cross-entropy. 16-bit logits are cast to fp32 first, except in the
// training compiler's fused loss.
void work_cross_entropy(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  if (call.attributes.loss_by_operations && level == CompilerLevel::fused)
    return work_loss_by_operations(call.inputs[0], kernels);
  const double logits = bytes(call.inputs[0]);
  if (level == CompilerLevel::full) {
    memory_kernel(kernels, logits);
    return;
  }
  const double wide = 4.0 * static_cast<double>(call.inputs[0].shape.elements());
  if (element_size(call.inputs[0]) < 4) memory_kernel(kernels, logits + wide);
  memory_kernel(kernels, 2 * wide);
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

void work_cross_entropy_grad(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const double logits = bytes(call.inputs[0]);
  if (level == CompilerLevel::full) {
    memory_kernel(kernels, 2 * logits);
    return;
  }
  const double wide = 4.0 * static_cast<double>(call.inputs[0].shape.elements());
  memory_kernel(kernels, 2 * wide);
  if (element_size(call.inputs[0]) < 4) memory_kernel(kernels, logits + wide);
}

// Appends the node that begins the backward pass: the gradient of the logits. It needs no gradient
// of the loss, and overwrites the logits in memory.
void differentiate_from(Gradients& g, const Node& node, Op grad, int saved) {
  Node at = node;
  at.attributes.scale = g.scale_of(node);
  const int made = g.output(g.make(grad, at, {node.inputs[0], saved, node.inputs[1]}));
  g.replace(node.inputs[0], made);
  g.pass_on(node, node.inputs[0], made);
}

template <Op grad>
void differentiate_loss(Gradients& g, const Node& node, int) {
  differentiate_from(g, node, grad, node.outputs[1]);
}

void differentiate_stats(Gradients& g, const Node& node, int) {
  differentiate_from(g, node, Op::cross_entropy_grad, g.combined);
}

void note_combined(Gradients& g, const Node& node, int) { g.combined = node.outputs[1]; }

constexpr OpInfo rows[] = {
    {.op = Op::cross_entropy,
     .name = "cross_entropy",
     .takes = 2,
     .makes = 2,
     .split = SplitRule::vocabulary,
     .infer = infer_cross_entropy,
     .work = work_cross_entropy,
     .traffic = Traffic::loss,
     .differentiate = differentiate_loss<Op::cross_entropy_grad>,
     .begins_backward = true,
     .rows = {.inputs = 0b11, .product = true},
     .widening = by_rows(0b11, 0b11)},
    {.op = Op::cross_entropy_stats,
     .name = "cross_entropy_stats",
     .takes = 2,
     .infer = infer_cross_entropy_stats,
     .work = work_cross_entropy,
     .traffic = Traffic::loss,
     .differentiate = differentiate_stats,
     .begins_backward = true},
    {.op = Op::cross_entropy_combine,
     .name = "cross_entropy_combine",
     .makes = 2,
     .infer = infer_cross_entropy_combine,
     .work = work_elementwise,
     .differentiate = note_combined,
     .begins_backward = true},
    {.op = Op::span_loss,
     .name = "span_loss",
     .takes = 2,
     .makes = 2,
     .split = SplitRule::whole,
     .infer = infer_span_loss,
     .work = work_elementwise,
     .differentiate = differentiate_loss<Op::span_loss_grad>,
     .begins_backward = true},
    {.op = Op::cross_entropy_grad,
     .name = "cross_entropy_grad",
     .takes = {3, 4},
     .infer = same_as_first,
     .work = work_cross_entropy_grad,
     .traffic = Traffic::loss,
     .takes_loss_scale = true,
     .rows = {.inputs = 0b111, .product = true},
     .widening = by_rows(0b111, 0b1)},
    {.op = Op::span_loss_grad,
     .name = "span_loss_grad",
     .takes = {3, 4},
     .infer = same_as_first,
     .work = work_elementwise,
     .takes_loss_scale = true},
};

}  // namespace

std::span<const OpInfo> loss_ops() { return rows; }

}  // namespace meshwright::program
