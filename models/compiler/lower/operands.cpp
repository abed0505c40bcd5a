#include "models/compiler/lower/operands.h"

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/memory.h"
#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

Operand parameter_operand(const StageDraft& draft, const Tensor& wanted) {
  const StageParameter& member = draft.program.parameters[draft.member_of[wanted.parameter]];
  const BucketPlan& planned = draft.buckets[member.bucket];
  const bool weighs = is_weight(wanted);
  Operand found = weighs ? planned.bucket.weights : planned.bucket.gradients;
  const bool in_unit_buffer = weighs ? planned.zero == 3 : planned.reduced_each;
  if (in_unit_buffer) {
    found.buffer = (weighs ? draft.units.weights : draft.units.gradients).of(planned.unit);
    MESHWRIGHT_CHECK(found.buffer >= 0, "a sharded unit is gathered before it is used");
    found.offset += weighs ? planned.gathered_offset : bytes_of(planned.offset, wanted.type.dtype);
  }
  found.offset += bytes_of(member.offset, wanted.type.dtype);
  found.type = wanted.type;
  return found;
}

int add_output_buffer(StageDraft& draft, int tensor, int virtual_stage) {
  const Tensor& made = draft.graph.tensor(tensor);
  const TensorFlow& flow = draft.boundaries.tensors[tensor];
  const int chunk = draft.chunk_of(virtual_stage);
  const std::string_view name = info(draft.graph.nodes[made.producer].op).name;
  const std::int64_t bytes = made.type.bytes();
  if (made.role == Role::of_step)
    return add_buffer(draft, name, MemoryClass::parameters, Region::persistent, bytes);
  if (const Offloaded* each = find_offloaded(draft, tensor, chunk)) return each->device;
  if (flow.kept)
    return add_buffer(draft, name, MemoryClass::activations, Region::slot, bytes, chunk);
  if (flow.crosses_forward || flow.crosses_backward)
    return add_buffer(draft, name, MemoryClass::communication, Region::persistent, bytes);
  return add_buffer(draft, name, MemoryClass::workspace, Region::task, bytes);
}

}  // namespace

Operand operand(const StageDraft& draft, int tensor, int virtual_stage) {
  const Tensor& wanted = draft.graph.tensor(tensor);
  switch (wanted.role) {
    case Role::input:
      return draft.places.loaded.at({tensor, virtual_stage});
    case Role::of_step:
    case Role::largest:
    case Role::gathered_scale:
      return draft.places.own[tensor];
    case Role::activation:
      return draft.boundaries.tensors[tensor].maker == virtual_stage
                 ? draft.places.own[tensor]
                 : draft.places.received[tensor];
    case Role::parameter:
    case Role::gathered_bits:
    case Role::parameter_gradient:
      break;
  }
  return parameter_operand(draft, wanted);
}

Operand place_output(StageDraft& draft, int tensor, int virtual_stage) {
  const Tensor& made = draft.graph.tensor(tensor);
  Operand& place = draft.places.own[tensor];
  if (made.alias_of >= 0) {
    place = operand(draft, made.alias_of, virtual_stage);
    place.type = made.type;
    return place;
  }
  const int becomes = draft.boundaries.reduced_into[tensor];
  if (becomes >= 0)  // the in-place all-reduce that follows decides on the memory
    place = place_output(draft, becomes, virtual_stage);
  else if (place.buffer < 0)  // otherwise the partial sum, from which it is reduced, has placed it
    place = {add_output_buffer(draft, tensor, virtual_stage), 0, made.type, GroupKind::none};
  return place;
}

}  // namespace meshwright::compiler
