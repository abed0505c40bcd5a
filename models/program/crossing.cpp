#include "models/program/crossing.h"

#include <algorithm>

namespace meshwright::program {

std::int64_t Crossing::bytes() const {
  std::int64_t sum = 0;
  for (const CrossingTensor& each : tensors) sum += each.bytes;
  return sum;
}

namespace {

// Returns the path of the module whose instruction in this body writes the operand, and the name of
// its buffer. Returns only the buffer's name if no such instruction belongs to a module.
std::string name_of(const Program& program, const Body& body, const Operand& sent) {
  const std::string& buffer = program.memory.buffers[sent.buffer].name;
  for (const Instruction& each : body.instructions)
    for (const Operand& output : each.outputs)
      if (output.buffer == sent.buffer && output.offset == sent.offset && each.module >= 0)
        return (*program.modules)[each.module] + " " + buffer;
  return buffer;
}

}  // namespace

std::vector<Crossing> crossings(const std::vector<Program>& stages) {
  std::vector<Crossing> all;
  for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage)
    for (const Body& body : stages[stage].bodies) {
      if (body.kind != Body::Kind::forward) continue;
      Crossing crossing{stage, body.chunk, 0, 0, {}};
      for (const Instruction& each : body.instructions) {
        if (each.kind != InstructionKind::send) continue;
        crossing.next_stage = each.peer;
        crossing.next_chunk = each.peer_chunk;
        const Operand& sent = each.inputs[0];
        crossing.tensors.push_back({name_of(stages[stage], body, sent), sent.type.bytes()});
      }
      if (!crossing.tensors.empty()) all.push_back(std::move(crossing));
    }
  std::ranges::sort(all, {}, [&](const Crossing& each) {
    return stages[each.stage].layout.virtual_stage(each.stage, each.chunk);
  });
  return all;
}

}  // namespace meshwright::program
