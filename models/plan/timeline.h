// When each instruction ran: what both interpreters return.
#pragma once

#include <string>
#include <vector>

#include "models/core/units.h"
#include "models/plan/program.h"

namespace meshwright {

struct TimelineEntry {
  int rank = 0;
  int task = 0;
  int instruction = 0;
  SimTime begin = 0, end = 0;
};

struct Timeline {
  std::vector<TimelineEntry> entries;
};

// A Chrome trace (Perfetto opens it): one process per rank, one thread per stream. `stage_of_rank`
// gives each rank's Program.
std::string to_chrome_trace(const Timeline& timeline, const std::vector<Program>& stages,
                            const std::vector<int>& stage_of_rank);

}  // namespace meshwright
