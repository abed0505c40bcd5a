// Finds during which instructions each buffer of a slot is in use, if backwards are split.
#pragma once

namespace meshwright::compiler {

struct StageDraft;

// Sets the lifetimes of buffers in slots. Without split backwards, all of a slot is live until it
// is given back.
void find_slot_lifetimes(StageDraft& draft);

}  // namespace meshwright::compiler
