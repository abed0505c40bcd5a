// Lists the operations of segments of captured models (models/program/graph/segment.h).
#include "models/program/graph/segment.h"

#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

void infer_segment(const Attributes& a, In, Out& out) {
  out.insert(out.end(), a.segment->outputs.begin(), a.segment->outputs.end());
}

void infer_segment_grad(const Attributes& a, In, Out& out) {
  out.insert(out.end(), a.segment->gradients.begin(), a.segment->gradients.end());
}

void work_segment(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const std::vector<Kernel>& own = call.attributes.segment->forward;
  kernels.insert(kernels.end(), own.begin(), own.end());
}

// Appends the kernels of the backward, and one for each parameter whose gradient is added to that
// of earlier micro-batches.
void work_segment_grad(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const Segment& segment = *call.attributes.segment;
  kernels.insert(kernels.end(), segment.backward.begin(), segment.backward.end());
  for (std::size_t i = segment.gradients.size(); i < call.outputs.size(); ++i)
    if (i >= 32 || !call.overwrites_output(i)) memory_kernel(kernels, 3 * bytes(call.outputs[i]));
}

double flops_of_segment(const OpCall& call) { return call.attributes.segment->forward_flops; }
double flops_of_segment_grad(const OpCall& call) { return call.attributes.segment->backward_flops; }

void differentiate_segment(Gradients& g, const Node& node, int) {
  const Segment& segment = *node.attributes.segment;
  TensorIds inputs, accumulated;
  for (const int operand : segment.kept)
    inputs.push_back(operand >= 0 ? node.inputs[operand] : node.outputs[-1 - operand]);
  bool has_gradient = false;
  for (const int output : segment.differentiable) {
    const int dy = g.of(node.outputs[output]);
    if (dy < 0) continue;
    inputs.push_back(dy);
    has_gradient = true;
  }
  if (!has_gradient) return;  // the loss does not depend on it
  for (int i = 0; i < segment.parameters; ++i)
    accumulated.push_back(g.of_parameter(node.inputs[i]));
  const int made = g.make(Op::segment_grad, node, inputs, accumulated);
  for (int i = 0; i < static_cast<int>(segment.differentiated.size()); ++i)
    g.pass_on(node, node.inputs[segment.differentiated[i]], g.output(made, i));
}

void infer_segment_loss(const Attributes& a, In in, Out& out) {
  require(in[0].shape.elements() == 1, "a captured model has one loss");
  out.push_back(column(1, a.made));
}

void differentiate_segment_loss(Gradients& g, const Node& node, int) {
  Node at = node;
  at.attributes.scale = g.scale_of(node);
  g.make_and_pass(Op::segment_loss_grad, at, {node.inputs[0]});
}

constexpr OpInfo rows[] = {
    {.op = Op::segment,
     .name = "segment",
     .takes = {0, Count::any},
     .makes = {1, Count::any},
     .infer = infer_segment,
     .work = work_segment,
     .model_flops = flops_of_segment,
     .differentiate = differentiate_segment,
     .begins_backward = true},
    {.op = Op::segment_grad,
     .name = "segment_grad",
     .takes = {0, Count::any},
     .makes = {0, Count::any},
     .infer = infer_segment_grad,
     .work = work_segment_grad,
     .model_flops = flops_of_segment_grad,
     .overwrites_sums = true},
    {.op = Op::segment_loss,
     .name = "segment_loss",
     .infer = infer_segment_loss,
     .work = work_nothing,
     .differentiate = differentiate_segment_loss,
     .begins_backward = true},
    {.op = Op::segment_loss_grad,
     .name = "segment_loss_grad",
     .takes = {1, 2},
     .infer = same_as_first,
     .work = work_write,
     .takes_loss_scale = true},
};

}  // namespace

std::span<const OpInfo> segment_ops() { return rows; }

}  // namespace meshwright::program
