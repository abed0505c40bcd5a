#include "models/schedule/schedule.h"

#include <algorithm>
#include <iterator>

#include "models/core/error.h"

namespace meshwright {

std::span<const ScheduleInfo> schedule_kinds() {
  static const std::vector<ScheduleInfo> rows = [] {
    std::vector<ScheduleInfo> made;
    for (Schedule* schedule : all_schedules) {
      MESHWRIGHT_CHECK(static_cast<std::size_t>(schedule().kind) == made.size(),
                       "schedules are in the order of their kinds");
      made.push_back(schedule());
    }
    return made;
  }();
  return rows;
}

const ScheduleInfo& schedule_info(ScheduleKind kind) {
  return schedule_kinds()[static_cast<std::size_t>(kind)];
}

int most_in_flight(const StageOrder& order, int chunk) {
  const bool splits = std::ranges::any_of(
      order, [](const ScheduledTask& task) { return task.kind == TaskKind::weights; });
  const TaskKind last = splits ? TaskKind::weights : TaskKind::backward;
  int live = 0, most = 0;
  for (const ScheduledTask& task : order) {
    if (task.chunk != chunk) continue;
    if (task.kind == TaskKind::forward) ++live;
    if (task.kind == last) --live;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace meshwright
