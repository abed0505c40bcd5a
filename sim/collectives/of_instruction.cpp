#include "sim/collectives/of_instruction.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

struct Row {
  InstructionKind instruction;
  CollectiveKind collective;
};
constexpr Row rows[] = {
    {InstructionKind::all_reduce, CollectiveKind::all_reduce},
    {InstructionKind::all_gather, CollectiveKind::all_gather},
    {InstructionKind::reduce_scatter, CollectiveKind::reduce_scatter},
    {InstructionKind::all_to_all, CollectiveKind::all_to_all},
    {InstructionKind::broadcast, CollectiveKind::broadcast},
    {InstructionKind::reduce, CollectiveKind::reduce},
};

}  // namespace

std::optional<CollectiveKind> collective_kind(InstructionKind instruction) {
  for (const Row& row : rows)
    if (row.instruction == instruction) return row.collective;
  return std::nullopt;
}

std::int64_t whole_bytes(const Instruction& collective) {
  std::int64_t in = 0, out = 0;
  for (const Operand& operand : collective.inputs) in += operand.type.bytes();
  for (const Operand& operand : collective.outputs) out += operand.type.bytes();
  return std::max(in, out);
}

}  // namespace meshwright::sim
