// Interleaved 1F1B over virtual stages (chunk * stages + stage). Micro-batches go through the
// chunks in groups of `stages`, and forwards and backwards alternate after a warm-up. With equal
// chunks, and without a bound on active micro-batches, the bubble is 1/chunks of that of 1F1B.
// micro_batches must be a multiple of stages.
#include "models/compiler/schedule/interleaved.h"

#include <algorithm>

#include "models/compiler/schedule/gpipe.h"
#include "models/core/error.h"

namespace meshwright::compiler {

ScheduledTask nth_task(PipelineShape shape, TaskKind kind, int k) {
  const int group = shape.stages * shape.chunks;
  const int chunk = k % group / shape.stages;
  return {kind, kind == TaskKind::forward ? chunk : shape.chunks - 1 - chunk,
          k / group * shape.stages + k % shape.stages};
}

bool too_tight(PipelineShape shape) {
  return shape.active_microbatches != 0 &&
         shape.active_microbatches < std::min(2 * shape.stages, shape.micro_batches);
}

StageOrder in_rounds(PipelineShape shape, int stage) {
  shape.active_microbatches = std::min(shape.active_microbatches, shape.stages);
  return gpipe(shape, stage);
}

int forwards_ahead(PipelineShape shape, int stage) {
  const int wanted = 2 * (shape.stages - 1 - stage) + (shape.chunks - 1) * shape.stages;
  return std::min(wanted, shape.micro_batches * shape.chunks);
}

namespace {

StageOrder interleaved(PipelineShape shape, int stage) {
  MESHWRIGHT_CHECK(shape.micro_batches % shape.stages == 0,
                   "interleaved needs micro-batches in groups of the stages");
  if (too_tight(shape)) return in_rounds(shape, stage);
  const int total = shape.micro_batches * shape.chunks;
  const int ahead = forwards_ahead(shape, stage);
  StageOrder order;
  for (int k = 0; k < ahead; ++k) order.push_back(nth_task(shape, TaskKind::forward, k));
  for (int k = ahead; k < total; ++k) {
    order.push_back(nth_task(shape, TaskKind::forward, k));
    order.push_back(nth_task(shape, TaskKind::backward, k - ahead));
  }
  for (int k = total - ahead; k < total; ++k)
    order.push_back(nth_task(shape, TaskKind::backward, k));
  return order;
}

}  // namespace

const ScheduleInfo& interleaved_schedule() {
  static constexpr ScheduleInfo row{
      .kind = ScheduleKind::interleaved,
      .name = "interleaved",
      .summary = "1f1b over virtual stages: a smaller bubble, more memory and sends",
      .rules = "micro-batches in multiples of `pipeline`",
      .most_chunks = ScheduleInfo::any,
      .in_groups = true,
      .order = interleaved};
  return row;
}

}  // namespace meshwright::compiler
