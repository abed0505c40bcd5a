// GPipe: all forwards, then all backwards. With several chunks, a stage forwards all micro-batches
// of chunk 0 before any of chunk 1, and runs the backwards in the reverse order of chunks. A bound
// on active micro-batches cuts the step into rounds of that many, each drained before the next
// begins.
#include <algorithm>

#include "models/compiler/schedule/gpipe.h"

namespace meshwright::compiler {

namespace {

int round_size(PipelineShape shape) {
  if (shape.active_microbatches == 0) return shape.micro_batches;
  return std::min(shape.active_microbatches, shape.micro_batches);
}

int in_flight(PipelineShape shape, int /*stage*/) { return round_size(shape); }

int fills(PipelineShape shape) {
  return (shape.micro_batches + round_size(shape) - 1) / round_size(shape);
}

}  // namespace

StageOrder gpipe(PipelineShape shape, int /*stage*/) {
  StageOrder order;
  for (int first = 0; first < shape.micro_batches; first += round_size(shape)) {
    const int end = std::min(first + round_size(shape), shape.micro_batches);
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      for (int m = first; m < end; ++m) order.push_back({TaskKind::forward, chunk, m});
    for (int chunk = shape.chunks - 1; chunk >= 0; --chunk)
      for (int m = first; m < end; ++m) order.push_back({TaskKind::backward, chunk, m});
  }
  return order;
}

const ScheduleInfo& gpipe_schedule() {
  static constexpr ScheduleInfo row{.kind = ScheduleKind::gpipe,
                                    .name = "gpipe",
                                    .summary = "all forwards, then all backwards",
                                    .forwards_all = true,
                                    .order = gpipe,
                                    .in_flight = in_flight,
                                    .fills = fills};
  return row;
}

}  // namespace meshwright::compiler
