// Chunks of one stage share slots where that takes less memory.
#pragma once

namespace meshwright {

struct StageDraft;

// Says which share them. After this the sizes of slots are known.
void choose_shared_slots(StageDraft& draft);

// What another chunk kept in a slot must have been used before it is written over: a chunk waits
// for those whose slots pass to it.
void wait_for_shared_slots(StageDraft& draft);

}  // namespace meshwright
