// Where backwards are split: from when to when each buffer of a slot is in use.
#pragma once

namespace meshwright {

struct StageDraft;

// Elsewhere all of a slot is live until it is given back.
void find_slot_lifetimes(StageDraft& draft);

}  // namespace meshwright
