// Makes chunks of one stage share slots if that takes less memory.
#pragma once

namespace meshwright::compiler {

struct StageDraft;

// Chooses which chunks share slots. This fixes the number of slots, and how large they are.
void choose_shared_slots(StageDraft& draft);

// Makes each chunk wait for the chunks from which it takes over slots, because the content of a
// slot must have been used before it is overwritten.
void wait_for_shared_slots(StageDraft& draft);

}  // namespace meshwright::compiler
