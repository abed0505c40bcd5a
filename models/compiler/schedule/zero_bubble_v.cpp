// ZB-V (Qi et al., "Zero Bubble Pipeline Parallelism", 2023, section 6): two chunks for each stage,
// which micro-batches pass there and back. If the forwards, backwards and weights' gradients of p
// equal stages all take the same time, there is no bubble from 2 p - 1 micro-batches on, except for
// the p - 1 forwards until the last stage can begin. A stage holds up to 2 p half micro-batches, as
// much as the first stage of 1F1B.
#include <algorithm>

#include "models/compiler/schedule/vee.h"

namespace meshwright::compiler {

namespace {

void write_zero_bubble_v(int stages, int stage, int micro_batches, VeeWriter& write) {
  using namespace vee;
  // `after` is the number of stages from this one to the last, both included.
  const int after = stages - stage, most = std::max(micro_batches, 2 * stages - 1);
  const auto forwards = [&](int chunk) { return write.count(TaskKind::forward, chunk); };
  // The first forwards fill the time until the first micro-batch comes back.
  for (int i = 0; i < 2 * after - 1; ++i) write.forward(there);
  for (int i = 0; i < stage; ++i) write.forward(back), write.forward(there);
  // These tasks fill the time until the first backward has gone through all stages that it passes
  // before chunk `there` of this stage.
  for (int i = 0; i < after; ++i) write.forward(back), write.both(back);
  while (forwards(back) < forwards(there) || forwards(there) < most) {
    if (forwards(there) < most) write.forward(there);
    write.both(there);
    write.forward(back);
    write.both(back);
  }
  // At the end, input gradients go first, and weight gradients fill the time that is left.
  for (int i = 0; i < stage; ++i) write.backward(there), write.backward(back);
  for (int i = 0; i < after; ++i) write.both(there);
  for (const int chunk : {back, there})
    while (write.count(TaskKind::weights, chunk) < write.count(TaskKind::backward, chunk))
      write.weights(chunk);
}

StageOrder zero_bubble_v(PipelineShape shape, int stage) {
  return vee_order(shape, stage, write_zero_bubble_v);
}

}  // namespace

const ScheduleInfo& zero_bubble_v_schedule() {
  static constexpr ScheduleInfo row{
      .kind = ScheduleKind::zero_bubble_v,
      .name = "zero_bubble_v",
      .summary = "zero_bubble over two virtual stages, there and back: hardly a bubble",
      .rules =
          "ZB-V: the first stage has the embedding and the head. A stage keeps up to 2 × "
          "`pipeline` micro-batches, each of one of its two virtual stages, until their weight "
          "gradients are done; `virtual_stages` 2, `zero_stage` 0 to 2",
      .least_chunks = 2,
      .most_chunks = 2,
      .splits_backwards = true,
      .stage_shape = StageShape::vee,
      .order = zero_bubble_v,
      .in_flight = vee_in_flight};
  return row;
}

}  // namespace meshwright::compiler
