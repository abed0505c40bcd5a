#include "models/compiler/lower/instruction_of.h"

#include <algorithm>

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/operands.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

bool takes_loss_scale(const Node& node) {
  if (node.op != Op::fused) return info(node.op).takes_loss_scale;
  const auto& steps = node.attributes.fusion->steps;
  return std::ranges::any_of(steps,
                             [](const FusedStep& step) { return info(step.op).takes_loss_scale; });
}

// The instruction kind of each Communication::What, in its order.
constexpr InstructionKind kinds[] = {InstructionKind::all_reduce, InstructionKind::all_reduce,
                                     InstructionKind::all_gather, InstructionKind::reduce_scatter,
                                     InstructionKind::ring_shift, InstructionKind::all_to_all};

struct Ranks {
  GroupKind group;
  Stream stream;
};
// The group and stream of each Communication::Over, in its order.
constexpr Ranks ranks_of[] = {{GroupKind::none, Stream::compute},
                              {GroupKind::tensor, Stream::tensor_comm},
                              {GroupKind::context, Stream::context_comm},
                              {GroupKind::expert, Stream::expert_comm}};

GroupKind group_in_context(const Degrees& degrees, Communication::What what) {
  return what == Communication::What::exchange ? degrees.heads_group() : degrees.ring_group();
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
  // A tensor of Role::largest has two numbers: the largest magnitude by which the operation rounds,
  // and the one that it finds now. It is read and written, so it is an output too.
  for (int id : node.inputs)
    if (draft.graph.tensor(id).role == Role::largest)
      instruction.outputs.push_back(operand(draft, id, virtual_stage));
  const Communication& communication = info(node.op).communication;
  if (!communication) return instruction;
  const Ranks& ranks = ranks_of[static_cast<std::size_t>(communication.over)];
  instruction.kind = kinds[static_cast<std::size_t>(communication.what)];
  instruction.stream = ranks.stream;
  instruction.group = communication.over == Communication::Over::context
                          ? group_in_context(draft.degrees, communication.what)
                          : ranks.group;
  instruction.maximum = communication.what == Communication::What::maximum;
  return instruction;
}

}  // namespace meshwright::compiler
