#include "models/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <string>

#include "models/core/error.h"
#include "models/schedule/kinds.h"

namespace meshwright {

std::span<const ScheduleInfo> schedule_kinds() {
  static constexpr std::array rows = {
      ScheduleInfo{ScheduleKind::gpipe, "gpipe", "all forwards, then all backwards", true, gpipe,
                   gpipe_bound},
      ScheduleInfo{ScheduleKind::one_f_one_b, "1f1b",
                   "one forward, one backward: as fast as gpipe, least memory", false, one_f_one_b,
                   one_f_one_b_bound},
      ScheduleInfo{ScheduleKind::interleaved, "interleaved",
                   "1f1b over virtual stages: a smaller bubble, more memory and sends", true,
                   interleaved, interleaved_bound},
  };
  return rows;
}

const ScheduleInfo& schedule_info(ScheduleKind kind) {
  const auto rows = schedule_kinds();
  const auto row = std::ranges::find(rows, kind, &ScheduleInfo::kind);
  if (row != rows.end()) return *row;
  std::vector<std::string> known;
  for (const ScheduleInfo& info : rows) known.emplace_back(info.name);
  throw NotSupportedYet("/parallelism/schedule: zero_bubble is not supported yet; use " +
                        list_of(known));
}

int most_in_flight(const StageOrder& order, int chunk) {
  int live = 0, most = 0;
  for (const ScheduledTask& task : order) {
    if (task.chunk != chunk) continue;
    live += task.backward ? -1 : 1;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace meshwright
