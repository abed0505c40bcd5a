#include "models/compiler/lower/slot_lifetimes.h"

#include <algorithm>

#include "models/compiler/lower/draft.h"

namespace meshwright::compiler {

namespace {

// Returns the compute instruction of this body by which instruction i has ended: the first one that
// waits for it, or i itself if it computes. Returns -1 if there is none.
int joined_at(const std::vector<Instruction>& body, int i) {
  const Stream stream = body[i].stream;
  if (stream == Stream::compute) return i;
  for (int k = i + 1; k < static_cast<int>(body.size()); ++k) {
    const Instruction& by = body[k];
    if (by.stream != Stream::compute || by.when != When::always) continue;
    for (const Wait& wait : by.waits)
      if (wait.relation == Wait::Relation::same_task && wait.instruction >= i &&
          body[wait.instruction].stream == stream)
        return k;
  }
  return -1;
}

struct Lifetime {
  int first = 0, last = 0;
};

// Returns how long the buffers that instruction i of the chunk's body uses are live. The rules are
// those of task buffers (body_builder.h): a buffer that an instruction of another stream uses is
// live until a compute instruction has waited for it, or always if none of this body does. A buffer
// of a message is always live.
Lifetime use_by(const StageDraft& draft, int chunk, int body, int i) {
  const std::vector<Instruction>& instructions = draft.program.bodies[body].instructions;
  const Stream stream = instructions[i].stream;
  const bool message = is_of_messages(stream);
  const bool forward = body == draft.forward_body(chunk);
  const int place = body - draft.backward_body(chunk);
  const int joined = message ? -1 : joined_at(instructions, i);
  Lifetime use;
  use.first = forward || message ? 0 : slot_time(place, i);
  use.last = joined < 0 ? slot_always : forward ? use.first : slot_time(place, joined);
  return use;
}

void find_lifetimes(StageDraft& draft, int chunk) {
  std::vector<char> seen(draft.program.memory.buffers.size(), 0);
  const auto touch = [&](const Operand& operand, const Lifetime& use) {
    Buffer& used = draft.buffer(operand.buffer);
    if (used.region != Region::slot || used.chunk != chunk) return;
    char& known = seen[operand.buffer];
    used.first = known ? std::min(used.first, use.first) : use.first;
    used.last = known ? std::max(used.last, use.last) : use.last;
    known = 1;
  };
  for (int body = draft.forward_body(chunk); body <= draft.last_body(chunk); ++body) {
    const std::vector<Instruction>& instructions = draft.program.bodies[body].instructions;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      const Lifetime use = use_by(draft, chunk, body, i);
      for (const Operand& operand : instructions[i].inputs) touch(operand, use);
      for (const Operand& operand : instructions[i].outputs) touch(operand, use);
    }
  }
}

}  // namespace

// Sets lifetimes, so that memory in a slot can be reused. Many tensors in a slot are needed until
// the backward body ends, and tensors that this body makes for the weights body may take over their
// memory.
void find_slot_lifetimes(StageDraft& draft) {
  if (!draft.splits_backwards) return;
  for (int chunk = 0; chunk < draft.chunks(); ++chunk) find_lifetimes(draft, chunk);
}

}  // namespace meshwright::compiler
