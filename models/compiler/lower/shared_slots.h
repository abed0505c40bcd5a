// Chunks of one stage share slots where that takes less memory.
#pragma once

namespace meshwright {

struct StageDraft;

// Chooses which chunks share slots. Afterwards the sizes of slots are known.
void choose_shared_slots(StageDraft& draft);

// Makes each chunk wait for the chunks whose slots pass to it, because what they kept there must
// have been used before it is overwritten.
void wait_for_shared_slots(StageDraft& draft);

}  // namespace meshwright
