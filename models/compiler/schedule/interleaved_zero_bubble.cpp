// Interleaved 1F1B whose backwards are two tasks, as in zero_bubble (ZB-H1). Stage s runs its
// weight gradients s backwards of chunks later. With p stages, equal chunks, times f, b and w of
// their three tasks and w <= f, b, the bubble is (p - 1)(f + b - w). A chunk's times are a stage's
// times divided by the number of chunks, so the bubble is smaller than that of zero_bubble by the
// same factor. No stage holds more activations than the first stage of interleaved. If the bound on
// active micro-batches is too low (too_tight()), the order is that of rounds instead. micro_batches
// must be a multiple of stages.
#include <algorithm>

#include "models/compiler/schedule/interleaved.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

// Returns the order with each backward split into its two tasks, one directly after the other.
StageOrder split(const StageOrder& whole) {
  StageOrder order;
  for (const ScheduledTask& task : whole) {
    order.push_back(task);
    if (task.kind == TaskKind::backward)
      order.push_back({TaskKind::weights, task.chunk, task.micro_batch_index});
  }
  return order;
}

StageOrder interleaved_zero_bubble(PipelineShape shape, int stage) {
  MESHWRIGHT_CHECK(shape.micro_batches % shape.stages == 0,
                   "interleaved_zero_bubble needs micro-batches in groups of the stages");
  if (too_tight(shape)) return split(in_rounds(shape, stage));
  const int total = shape.micro_batches * shape.chunks;
  const int ahead = forwards_ahead(shape, stage);
  StageOrder order;
  const auto backward = [&](int k) {
    order.push_back(nth_task(shape, TaskKind::backward, k));
    if (k >= stage) order.push_back(nth_task(shape, TaskKind::weights, k - stage));
  };
  for (int k = 0; k < total; ++k) {
    order.push_back(nth_task(shape, TaskKind::forward, k));
    if (k >= ahead) backward(k - ahead);
  }
  for (int k = total - ahead; k < total; ++k) backward(k);
  for (int k = std::max(0, total - stage); k < total; ++k)
    order.push_back(nth_task(shape, TaskKind::weights, k));
  return order;
}

}  // namespace

const ScheduleInfo& interleaved_zero_bubble_schedule() {
  static constexpr ScheduleInfo row{
      .kind = ScheduleKind::interleaved_zero_bubble,
      .name = "interleaved_zero_bubble",
      .summary = "interleaved whose weight gradients fill the bubble",
      .rules =
          "weight gradients are put off into the bubble, and what they need is kept until they "
          "are done; micro-batches in multiples of `pipeline`; `zero_stage` 0 to 2",
      .most_chunks = ScheduleInfo::any,
      .in_groups = true,
      .splits_backwards = true,
      .order = interleaved_zero_bubble};
  return row;
}

}  // namespace meshwright::compiler
