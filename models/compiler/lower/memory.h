// Buffers of a stage and their places in its arena.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/program/memory_plan.h"

namespace meshwright {

struct StageDraft;

// Adds a buffer and returns its number. `chunk` is set for buffers in a slot, a window or the
// host's memory.
int add_buffer(StageDraft& draft, std::string_view name, MemoryClass cls, Region region,
               std::int64_t bytes, int chunk = -1);

// Gives buffers in slots their offsets, and finds how large the slots of each chunk must be.
void lay_out_slots(StageDraft& draft);

// Gives every other buffer its offset, and the regions their sizes.
void lay_out_memory(StageDraft& draft);

}  // namespace meshwright
