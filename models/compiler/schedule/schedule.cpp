#include "models/compiler/schedule/schedule.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::compiler {

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

int as_many_as_stages_left(PipelineShape shape, int stage) {
  const int most = std::min(shape.micro_batches, shape.stages - stage);
  return shape.active_microbatches > 0 ? std::min(most, shape.active_microbatches) : most;
}

const ScheduleInfo& schedule_info(ScheduleKind kind) {
  return schedule_kinds()[static_cast<std::size_t>(kind)];
}

}  // namespace meshwright::compiler
