#include "models/schedule/schedule.h"

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

}  // namespace meshwright
