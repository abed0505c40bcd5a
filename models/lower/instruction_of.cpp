#include "models/lower/instruction_of.h"

#include <algorithm>

#include "models/graph/fusion.h"
#include "models/graph/op_table.h"
#include "models/lower/draft.h"
#include "models/lower/operands.h"

namespace meshwright {

namespace {

bool takes_loss_scale(const Node& node) {
  if (node.op != Op::fused) return info(node.op).takes_loss_scale;
  const auto& steps = node.attributes.fusion->steps;
  return std::any_of(steps.begin(), steps.end(),
                     [](const FusedStep& step) { return info(step.op).takes_loss_scale; });
}

struct Communication {
  InstructionKind kind;
  GroupKind group = GroupKind::tensor;
  Stream stream = Stream::tensor_comm;
};

Communication communication_of(Op op) {
  switch (op) {
    case Op::sequence_gather:
    case Op::stats_gather:
      return {InstructionKind::all_gather};
    case Op::sequence_scatter:
      return {InstructionKind::reduce_scatter};
    case Op::context_shift:
      return {InstructionKind::ring_shift, GroupKind::context, Stream::context_comm};
    case Op::context_gather:
      return {InstructionKind::all_gather, GroupKind::context, Stream::context_comm};
    case Op::context_scatter:
      return {InstructionKind::reduce_scatter, GroupKind::context, Stream::context_comm};
    case Op::expert_exchange:
      return {InstructionKind::all_to_all, GroupKind::expert, Stream::expert_comm};
    default:
      return {InstructionKind::all_reduce};
  }
}

}  // namespace

Instruction instruction_of(StageDraft& draft, const Node& node, int virtual_stage) {
  Instruction instruction;
  instruction.op = node.op;
  instruction.module = node.module;
  instruction.phase = node.phase;
  instruction.attributes = node.attributes;
  for (int id : node.inputs) instruction.inputs.push_back(operand(draft, id, virtual_stage));
  if (takes_loss_scale(node) && draft.program.loss_scale_buffer >= 0)
    instruction.inputs.push_back(
        {draft.program.loss_scale_buffer, 0, {Shape{1}, Dtype::f32}, GroupKind::none});
  for (int id : node.outputs)
    instruction.outputs.push_back(is_made(draft.graph.tensor(id))
                                      ? place_output(draft, id, virtual_stage)
                                      : operand(draft, id, virtual_stage));
  if (!info(node.op).is_communication) return instruction;
  const Communication over = communication_of(node.op);
  instruction.kind = over.kind;
  instruction.stream = over.stream;
  instruction.group = over.group;
  instruction.maximum = node.op == Op::tensor_maximum;
  return instruction;
}

}  // namespace meshwright
