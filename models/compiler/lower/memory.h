// Adds the buffers of a stage, and assigns offsets in memory to them.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/program/memory_plan.h"

namespace meshwright::compiler {

struct StageDraft;

// Adds a buffer and returns its number. `chunk` is set for buffers in a slot or in a window, and
// for offloaded activations in host memory. It is -1 for others.
int add_buffer(StageDraft& draft, std::string_view name, MemoryClass cls, Region region,
               std::int64_t bytes, int chunk = -1);

// Assigns offsets to the buffers in slots, and computes how many bytes a slot of each chunk needs.
void lay_out_slots(StageDraft& draft);

// Assigns offsets to all other buffers, and computes the sizes of the regions.
void lay_out_memory(StageDraft& draft);

}  // namespace meshwright::compiler
