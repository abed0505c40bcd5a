#include "models/compiler/lower/shared_slots.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/tasks.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

// Returns for each chunk the other chunks from which it takes over a slot at some time.
std::vector<std::set<int>> chunks_before(const StageDraft& draft) {
  std::vector<std::set<int>> before(draft.chunks());
  std::map<std::pair<int, int>, int> latest;  // pool and slot -> chunk
  for (const Task& task : draft.program.tasks) {
    if (task.chunk < 0 || task.body != draft.forward_body(task.chunk)) continue;
    const std::pair slot{draft.pools.pool_of[task.chunk], task.slot};
    const auto [had, is_first] = latest.try_emplace(slot, task.chunk);
    if (had->second != task.chunk) before[task.chunk].insert(had->second);
    had->second = task.chunk;
  }
  return before;
}

template <class Visit>
void for_instructions(StageDraft& draft, int chunk, const Visit& visit) {
  for (int body = draft.forward_body(chunk); body <= draft.last_body(chunk); ++body)
    for (Instruction& instruction : draft.program.bodies[body].instructions) visit(instruction);
}

// Makes instructions that fill a slot of `chunk` wait until `before`, the chunk that had the slot,
// has used all of its content.
void wait_for_last_use(StageDraft& draft, int chunk, int before) {
  const Wait own{Wait::Relation::latest_with_slot, draft.last_body(chunk), -1};
  for_instructions(draft, chunk, [&](Instruction& instruction) {
    if (std::ranges::find(instruction.waits, own) != instruction.waits.end())
      instruction.waits.push_back({Wait::Relation::latest_with_slot, draft.last_body(before), -1});
  });
}

// Checks that a chunk sends nothing out of its slots, because no instruction waits until a message
// has left a slot that several chunks share.
void check_sends(StageDraft& draft, int chunk) {
  for_instructions(draft, chunk, [&](const Instruction& instruction) {
    MESHWRIGHT_CHECK(instruction.kind != InstructionKind::send ||
                         draft.buffer(instruction.inputs[0].buffer).region != Region::slot,
                     "chunks that share slots send nothing out of them");
  });
}

}  // namespace

void choose_shared_slots(StageDraft& draft) {
  const std::vector<double> bytes(draft.slot_bytes.begin(), draft.slot_bytes.end());
  draft.pools = choose_slot_pools(fullest_times(order_of(draft), draft.chunks()), bytes);
}

void wait_for_shared_slots(StageDraft& draft) {
  const std::vector<std::set<int>> before = chunks_before(draft);
  for (int chunk = 0; chunk < draft.chunks(); ++chunk)
    for (const int other : before[chunk]) {
      check_sends(draft, other);
      wait_for_last_use(draft, chunk, other);
    }
}

}  // namespace meshwright::compiler
