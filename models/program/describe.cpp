#include "models/program/describe.h"
#include "models/program/graph/op_table.h"

namespace meshwright::program {

std::string_view name_of(InstructionKind kind) {
  constexpr std::string_view names[] = {
      "compute",    "load_input",     "send",       "recv",          "all_reduce",
      "all_gather", "reduce_scatter", "all_to_all", "broadcast",     "reduce",
      "ring_shift", "copy_out",       "copy_in",    "optimizer_step"};
  return names[static_cast<std::size_t>(kind)];
}

std::string describe(const Program& program, const Task& task, const Instruction& instruction) {
  constexpr std::string_view phases[] = {"forward", "recomputation", "backward"};
  const bool is_compute = instruction.kind == InstructionKind::compute;
  std::string text(is_compute ? info(instruction.op).name : name_of(instruction.kind));
  if (instruction.group != GroupKind::none)
    text += " of group " + std::string(name_of(instruction.group));
  if (instruction.peer >= 0)
    text += " with virtual stage " + std::to_string(peer_virtual_stage(program, instruction));
  if (instruction.module >= 0 && program.modules)
    text += " in " + (*program.modules)[instruction.module];
  if (task.micro_batch_index < 0) return text + ", around the micro-batches";
  return text + ", " + std::string(phases[static_cast<std::size_t>(instruction.phase)]) +
         ", micro-batch " + std::to_string(task.micro_batch_index);
}

}  // namespace meshwright::program
