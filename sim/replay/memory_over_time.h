// Finds the memory of one rank over a step: which bytes of its MemoryPlan are live when.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::sim {

struct MemoryPoint {
  SimTime time = 0;                                      // until the next point
  std::array<std::int64_t, memory_class_count> bytes{};  // indexed by MemoryClass
  std::int64_t total() const;
};

// Returns the points in time at which the live bytes change. `entries` are those of one rank of the
// Program's stage, in any order. The live bytes never exceed the arena, because buffers may leave
// gaps in it. Buffers that only some ranks own count if Program::fullest owns them.
std::vector<MemoryPoint> memory_over_time(const Program& program,
                                          std::span<const TimelineEntry> entries);

}  // namespace meshwright::sim
