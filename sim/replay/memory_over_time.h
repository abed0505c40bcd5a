// Finds the memory of one rank over a step: which bytes of its memory plan are live at which time.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::sim {

struct MemoryPoint {
  SimTime time = 0;  // `bytes` are live from here to the next point
  std::array<std::int64_t, memory_class_count> bytes{};  // indexed by MemoryClass
  std::int64_t total() const;
};

// Returns the points in time at which the live bytes change. `entries` are those of one rank of the
// Program's stage, in any order. The live bytes never exceed the arena, which may have gaps between
// buffers. Memory of the host does not count. Buffers that only some ranks own count if
// Program::fullest owns them.
std::vector<MemoryPoint> memory_over_time(const Program& program,
                                          std::span<const TimelineEntry> entries);

}  // namespace meshwright::sim
