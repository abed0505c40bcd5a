#include "models/compiler/schedule/vee.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

int round_size(PipelineShape shape) {
  const bool bound = shape.active_microbatches > 0 && shape.active_microbatches < 2 * shape.stages;
  return bound ? std::min(shape.active_microbatches, shape.micro_batches) : shape.micro_batches;
}

}  // namespace

int vee_in_flight(PipelineShape shape, int stage) {
  const int round = round_size(shape), pairs = std::min(round + 1 + stage, 2 * round);
  return std::min(shape.stages - stage, std::max(1, pairs / 2));
}

StageOrder vee_order(PipelineShape shape, int stage, VeeRound write_round) {
  StageOrder order;
  if (shape.chunks == 1) {
    MESHWRIGHT_CHECK(shape.stages == 1, "there and back takes two chunks of each stage");
    for (int m = 0; m < shape.micro_batches; ++m)
      for (const TaskKind kind : {TaskKind::forward, TaskKind::backward, TaskKind::weights})
        order.push_back({kind, 0, m});
    return order;
  }
  MESHWRIGHT_CHECK(shape.chunks == 2, "there and back takes two chunks of each stage");
  const int round = round_size(shape);
  for (int first = 0; first < shape.micro_batches; first += round) {
    const int end = std::min(first + round, shape.micro_batches);
    VeeWriter write(first, end, order);
    write_round(shape.stages, stage, end - first, write);
  }
  return order;
}

}  // namespace meshwright::compiler
