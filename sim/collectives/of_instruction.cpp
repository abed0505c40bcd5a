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

std::int64_t sent_bytes(const Instruction& collective, const Machine& machine) {
  const std::int64_t whole = whole_bytes(collective);
  const Attributes& a = collective.attributes;
  if (collective.op != Op::expert_exchange || !is_dropless(a) || machine.runs_engine() ||
      is_of_counts(collective, machine))
    return whole;
  const double planned = static_cast<double>(a.expert_rows) * a.expert_parts;
  const double chosen = static_cast<double>(a.micro_batch) * a.sequence_length *
                        a.experts_per_token * a.expert_imbalance;
  return static_cast<std::int64_t>(static_cast<double>(whole) * std::min(1.0, chosen / planned));
}

bool is_of_counts(const Instruction& instruction, const Machine& machine) {
  return instruction.op == Op::expert_exchange && !machine.runs_engine() &&
         instruction.inputs[0].type.dtype == Dtype::i32;
}

}  // namespace meshwright::sim
