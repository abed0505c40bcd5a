// Writes collectives on buckets and on the step's scalars, in the stream shard_comm.
#pragma once

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/plan/plan.h"

namespace meshwright::compiler {

struct CollectiveCall {
  InstructionKind kind = InstructionKind::all_reduce;
  GroupKind group = GroupKind::none;
  Operand input, output;
  int bucket = -1;
  When when = When::always;
  int root = 0;
  bool maximum = false;
};

CollectiveCall all_reduce_in(GroupKind group, const Operand& in_place, int bucket = -1);

void emit_collective(const Plan& plan, BodyBuilder& body, const CollectiveCall& collective);

}  // namespace meshwright::compiler
