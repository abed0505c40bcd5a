// 1F1B: a stage starts with some forwards (the warm-up), then alternates one forward and one
// backward, then drains. At most warm-up + 1 micro-batches hold activations at once.
#include <algorithm>

#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

// Returns the number of forwards in the warm-up of stage s of p. One forward per stage after this
// one is the least that keeps the pipeline full when sending is free. If a bound A on active
// micro-batches is larger than p, the extra ones fill the time before the first backward arrives:
// with equal times 2(p-1-s) + 1 forwards fit there.
//
// The warm-up falls by at least one from stage to stage, unless A or the number of micro-batches
// limits it, because stages with the same warm-up would wait for each other at every task. It never
// rises, so there is no deadlock for any A >= 1: the forwards that the next stage needs before its
// k-th backward come before the k-th backward on this stage too.
int warm_up(PipelineShape shape, int stage) {
  const int after = shape.stages - 1 - stage;
  if (shape.active_microbatches == 0) return std::min(after, shape.micro_batches);
  const int spare = std::max(0, shape.active_microbatches - shape.stages);
  return std::min({2 * after, after + spare, shape.active_microbatches - 1, shape.micro_batches});
}

StageOrder one_f_one_b(PipelineShape shape, int stage) {
  MESHWRIGHT_CHECK(shape.chunks == 1, "1f1b has no virtual stages");
  const int ahead = warm_up(shape, stage);
  StageOrder order;
  for (int m = 0; m < ahead; ++m) order.push_back({TaskKind::forward, 0, m});
  for (int m = ahead; m < shape.micro_batches; ++m) {
    order.push_back({TaskKind::forward, 0, m});
    order.push_back({TaskKind::backward, 0, m - ahead});
  }
  for (int m = shape.micro_batches - ahead; m < shape.micro_batches; ++m)
    order.push_back({TaskKind::backward, 0, m});
  return order;
}

}  // namespace

const ScheduleInfo& one_f_one_b_schedule() {
  static constexpr ScheduleInfo row{
      .kind = ScheduleKind::one_f_one_b,
      .name = "1f1b",
      .summary = "one forward, one backward: as fast as gpipe, least memory",
      .order = one_f_one_b};
  return row;
}

}  // namespace meshwright::compiler
