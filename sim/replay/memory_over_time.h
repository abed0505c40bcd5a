// The memory of one rank over a step: which bytes of its MemoryPlan are live when.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright {

struct MemoryPoint {
  SimTime time = 0;                                      // until the next point
  std::array<std::int64_t, memory_class_count> bytes{};  // indexed by MemoryClass
  std::int64_t total() const;
};

// `entries` are those of one rank of the Program's stage, in any order. Buffers that are live at
// one time fit into the arena; what lies between them makes up the difference. Of owned buffers
// those of Program::fullest are counted.
std::vector<MemoryPoint> memory_over_time(const Program& program,
                                          std::span<const TimelineEntry> entries);

}  // namespace meshwright
