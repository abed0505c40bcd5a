// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): 1F1B whose backwards are two tasks,
// the gradients of activations, for which earlier stages wait, and those of weights, for which no
// stage waits. Stage s runs its weight gradients up to s micro-batches later (fewer if a bound on
// active micro-batches is lower than the number of stages). They fill the time in which 1F1B waits
// for the last gradients to come down the pipeline. With p equal stages, times f, b and w of the
// three tasks and w <= f, b, the bubble is (p - 1)(f + b - w) instead of (p - 1)(f + b + w), from p
// micro-batches on. Every stage then holds p micro-batches, like the first stage of 1F1B.
#include <algorithm>

#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

int in_flight(PipelineShape shape) {
  if (shape.active_microbatches == 0) return shape.stages;
  return std::min(shape.active_microbatches, shape.stages);
}

int warm_up(PipelineShape shape, int stage) {
  return std::min({shape.stages - 1 - stage, in_flight(shape) - 1, shape.micro_batches});
}

StageOrder zero_bubble(PipelineShape shape, int stage) {
  MESHWRIGHT_CHECK(shape.chunks == 1, "zero_bubble has no virtual stages");
  const int ahead = warm_up(shape, stage);
  const int lag = std::min(stage, in_flight(shape) - 1 - ahead);
  StageOrder order;
  const auto backward = [&](int m) {
    order.push_back({TaskKind::backward, 0, m});
    if (m >= lag) order.push_back({TaskKind::weights, 0, m - lag});
  };
  for (int m = 0; m < shape.micro_batches; ++m) {
    order.push_back({TaskKind::forward, 0, m});
    if (m >= ahead) backward(m - ahead);
  }
  for (int m = shape.micro_batches - ahead; m < shape.micro_batches; ++m) backward(m);
  for (int m = std::max(0, shape.micro_batches - lag); m < shape.micro_batches; ++m)
    order.push_back({TaskKind::weights, 0, m});
  return order;
}

}  // namespace

const ScheduleInfo& zero_bubble_schedule() {
  static constexpr ScheduleInfo row{
      .kind = ScheduleKind::zero_bubble,
      .name = "zero_bubble",
      .summary =
          "1f1b whose weight gradients fill the bubble; all stages keep as many as the first",
      .rules =
          "ZB-H1: weight gradients are put off into the bubble. Until they are done, a stage "
          "keeps up to `pipeline` micro-batches (fewer with `active_microbatches`), with "
          "recomputation also what is recomputed; `zero_stage` 0 to 2",
      .splits_backwards = true,
      .order = zero_bubble};
  return row;
}

}  // namespace meshwright::compiler
