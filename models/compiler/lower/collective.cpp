#include "models/compiler/lower/collective.h"

namespace meshwright::compiler {

CollectiveCall all_reduce_in(GroupKind group, const Operand& in_place, int bucket) {
  return {InstructionKind::all_reduce, group, in_place, in_place, bucket};
}

void emit_collective(const Plan& plan, BodyBuilder& body, const CollectiveCall& collective) {
  Instruction instruction;
  instruction.kind = collective.kind;
  instruction.stream = Stream::shard_comm;
  instruction.group = collective.group;
  instruction.when = collective.when;
  instruction.flat =
      collective.kind != InstructionKind::all_gather || !plan.parallelism.hierarchical_gather;
  instruction.bucket = collective.bucket;
  instruction.root = collective.root;
  instruction.maximum = collective.maximum;
  instruction.phase = Phase::backward;
  instruction.inputs = {collective.input};
  instruction.outputs = {collective.output};
  if (body.last_compute() < 0) instruction.waits.push_back({Wait::Relation::previous_task, -1, -1});
  body.emit(std::move(instruction));
}

}  // namespace meshwright::compiler
