#include "exec/runtime/collectives.h"

#include "models/core/error.h"

namespace meshwright::exec {

namespace {

// Runs an all-gather or a reduce-scatter whose parts are several operands at equal distances. It
// works in place: this rank's part is copied there before the gather, or from there after the sum.
// Returns false for any other collective.
bool run_apart(const RankContext& rank, const Instruction& instruction, const Task& task) {
  const bool gathers = instruction.kind == InstructionKind::all_gather;
  if (!gathers && instruction.kind != InstructionKind::reduce_scatter) return false;
  const std::vector<Operand>& parts = gathers ? instruction.outputs : instruction.inputs;
  if (parts.size() < 2) return false;
  Communicator& members = rank.group(instruction.group);
  const TensorType& part = parts[0].type;
  const auto address = [&](const Operand& operand) {
    return rank.memory.address<char>(operand, task.slot, task.window);
  };
  char* first = address(parts[0]);
  const std::int64_t distance = address(parts[1]) - first;
  char* own = first + members.rank() * distance;
  if (gathers) {
    rank.backend.copy(own, address(instruction.inputs[0]), part.bytes());
    members.gather_apart(first, part.bytes(), distance);
  } else {
    members.reduce_apart(first, part.shape.elements(), part.dtype, distance);
    rank.backend.copy(address(instruction.outputs[0]), own, part.bytes());
  }
  return true;
}

}  // namespace

void run_collective(const RankContext& rank, const Instruction& instruction, const Task& task) {
  if (run_apart(rank, instruction, task)) return;
  Communicator& members = rank.group(instruction.group);
  const TensorType& in = instruction.inputs[0].type;
  const Operand& result = instruction.outputs[0];
  const void* from = rank.memory.address(instruction.inputs[0], task.slot, task.window);
  void* to = rank.memory.address(result, task.slot, task.window);
  switch (instruction.kind) {
    case InstructionKind::all_reduce:
      MESHWRIGHT_CHECK(from == to, "an all-reduce works in place");
      return members.all_reduce(to, in.shape.elements(), in.dtype, instruction.maximum);
    case InstructionKind::all_gather:
      return members.all_gather(from, to, in.bytes(), instruction.flat);
    case InstructionKind::reduce_scatter:
      return members.reduce_scatter(
          from, to, in.shape.elements() / members.size(), in.dtype,
          instruction.accumulate && overwrites_in(instruction, task) == 0);
    case InstructionKind::all_to_all:
      return members.all_to_all(from, to, in.bytes() / members.size());
    case InstructionKind::ring_shift:
      return shift_around(members, from, to, in.bytes());
    case InstructionKind::reduce:
      return members.reduce(to, in.shape.elements(), in.dtype, instruction.root);
    default:
      return members.broadcast(to, in.bytes(), instruction.root);
  }
}

}  // namespace meshwright::exec
