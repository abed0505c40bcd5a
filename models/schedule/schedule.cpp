#include "models/schedule/schedule.h"

#include <algorithm>
#include <array>

#include "models/core/error.h"
#include "models/schedule/kinds.h"

namespace meshwright {

std::span<const ScheduleInfo> schedule_kinds() {
  static constexpr std::array rows = {
      ScheduleInfo{ScheduleKind::gpipe, "gpipe", "all forwards, then all backwards", true, false,
                   gpipe},
      ScheduleInfo{ScheduleKind::one_f_one_b, "1f1b",
                   "one forward, one backward: as fast as gpipe, least memory", false, false,
                   one_f_one_b},
      ScheduleInfo{ScheduleKind::interleaved, "interleaved",
                   "1f1b over virtual stages: a smaller bubble, more memory and sends", true, false,
                   interleaved},
      ScheduleInfo{
          ScheduleKind::zero_bubble, "zero_bubble",
          "1f1b whose weight gradients fill the bubble; all stages keep as many as the first",
          false, true, zero_bubble},
  };
  return rows;
}

const ScheduleInfo& schedule_info(ScheduleKind kind) {
  const auto rows = schedule_kinds();
  const auto row = std::ranges::find(rows, kind, &ScheduleInfo::kind);
  MESHWRIGHT_CHECK(row != rows.end(), "every schedule has its row");
  return *row;
}

int most_in_flight(const StageOrder& order, int chunk) {
  const bool splits = std::ranges::any_of(
      order, [](const ScheduledTask& task) { return task.kind == Body::Kind::weights; });
  const Body::Kind last = splits ? Body::Kind::weights : Body::Kind::backward;
  int live = 0, most = 0;
  for (const ScheduledTask& task : order) {
    if (task.chunk != chunk) continue;
    if (task.kind == Body::Kind::forward) ++live;
    if (task.kind == last) --live;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace meshwright
