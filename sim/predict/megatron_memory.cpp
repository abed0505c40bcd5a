#include "sim/predict/megatron_memory.h"

#include <algorithm>
#include <set>

namespace meshwright::sim {

std::int64_t expert_outputs_of_slot(const Program& program, int chunk) {
  const Framework framework = program.settings->training.framework;
  if (framework != Framework::megatron_lm && framework != Framework::megatron_bridge) return 0;
  std::set<int> of_combine, of_others;
  for (const Body& body : program.bodies) {
    if (body.kind == Body::Kind::weights) return 0;
    if (body.kind != Body::Kind::backward || body.chunk != chunk) continue;
    for (const Instruction& each : body.instructions)
      for (std::size_t i = 0; i < each.inputs.size(); ++i) {
        const bool is_output_of_experts = i == 0 && each.kind == InstructionKind::compute &&
                                          each.op == Op::combine_grad && each.inputs.size() == 4;
        (is_output_of_experts ? of_combine : of_others).insert(each.inputs[i].buffer);
      }
  }
  std::int64_t bytes = 0;
  for (const int number : of_combine) {
    const Buffer& buffer = program.memory.buffers[static_cast<std::size_t>(number)];
    if (buffer.region == Region::slot && !of_others.contains(number)) bytes += buffer.bytes;
  }
  return bytes;
}

std::int64_t expert_outputs_left_out(const Program& program) {
  std::int64_t all = 0;
  const int chunks = static_cast<int>(program.memory.slots.size());
  for (int pool = 0; pool < chunks; ++pool) {
    if (program.memory.pool_of(pool) != pool) continue;
    std::int64_t of_slot = expert_outputs_of_slot(program, pool);
    for (int chunk = pool + 1; chunk < chunks; ++chunk)
      if (program.memory.pool_of(chunk) == pool)
        of_slot = std::min(of_slot, expert_outputs_of_slot(program, chunk));
    all += of_slot * program.memory.slots[static_cast<std::size_t>(pool)].slots;
  }
  return all;
}

}  // namespace meshwright::sim
