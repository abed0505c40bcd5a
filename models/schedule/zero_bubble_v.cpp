// ZB-V (Qi et al., "Zero Bubble Pipeline Parallelism", 2023, section 6): two chunks for each stage,
// which micro-batches pass there and back. The last stage has the middle of the model, the first
// one its beginning and its end, so a backward begins where its forward ends, without a way to go.
// With equal stages whose forward, backward and weights' gradients take as long as each other,
// there is no bubble from 2 p - 1 micro-batches on but for the p - 1 forwards until the last stage
// has something to do. A stage holds up to 2 p half micro-batches, as many as the first one of
// 1F1B.
#include <algorithm>
#include <array>

#include "models/core/error.h"
#include "models/schedule/schedule.h"

namespace meshwright {

namespace {

constexpr int there = 0, back = 1;  // the chunks

// Appends tasks, each with the next micro-batch of its kind and chunk. What is beyond those that
// there are is left out.
class Writer {
 public:
  Writer(int first, int end, StageOrder& order) : first_(first), end_(end), order_(order) {}

  void forward(int chunk) { add(TaskKind::forward, chunk); }
  void backward(int chunk) { add(TaskKind::backward, chunk); }
  void weights(int chunk) { add(TaskKind::weights, chunk); }
  void both(int chunk) { backward(chunk), weights(chunk); }
  int count(TaskKind kind, int chunk) const { return counts_[at(kind)][at(chunk)]; }

 private:
  static std::size_t at(TaskKind kind) { return static_cast<std::size_t>(kind); }
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  void add(TaskKind kind, int chunk) {
    const int micro_batch = first_ + counts_[at(kind)][at(chunk)]++;
    if (micro_batch < end_) order_.push_back({kind, chunk, micro_batch});
  }

  const int first_, end_;
  StageOrder& order_;
  std::array<std::array<int, 2>, 3> counts_{};
};

// Micro-batches [first, end). `after`: stages from this one to the last, and it.
void write_round(int stages, int stage, int first, int end, StageOrder& order) {
  Writer write(first, end, order);
  const int after = stages - stage, most = std::max(end - first, 2 * stages - 1);
  const auto forwards = [&](int chunk) { return write.count(TaskKind::forward, chunk); };
  // Until the first one comes back.
  for (int i = 0; i < 2 * after - 1; ++i) write.forward(there);
  for (int i = 0; i < stage; ++i) write.forward(back), write.forward(there);
  // Until the first backward has gone through all stages that it passes before this chunk.
  for (int i = 0; i < after; ++i) write.forward(back), write.both(back);
  while (forwards(back) < forwards(there) || forwards(there) < most) {
    if (forwards(there) < most) write.forward(there);
    write.both(there);
    write.forward(back);
    write.both(back);
  }
  // The last gradients pass first; weights fill what is left.
  for (int i = 0; i < stage; ++i) write.backward(there), write.backward(back);
  for (int i = 0; i < after; ++i) write.both(there);
  for (const int chunk : {back, there})
    while (write.count(TaskKind::weights, chunk) < write.count(TaskKind::backward, chunk))
      write.weights(chunk);
}

// A bound that is lower than what it has in flight leaves rounds, one after another.
StageOrder zero_bubble_v(PipelineShape shape, int stage) {
  StageOrder order;
  if (shape.chunks == 1) {
    MESHWRIGHT_CHECK(shape.stages == 1, "zero_bubble_v has two chunks for each stage");
    for (int m = 0; m < shape.micro_batches; ++m)
      for (const TaskKind kind : {TaskKind::forward, TaskKind::backward, TaskKind::weights})
        order.push_back({kind, 0, m});
    return order;
  }
  MESHWRIGHT_CHECK(shape.chunks == 2, "zero_bubble_v has two chunks for each stage");
  const bool bound = shape.active_microbatches > 0 && shape.active_microbatches < 2 * shape.stages;
  const int round = bound ? shape.active_microbatches : shape.micro_batches;
  for (int first = 0; first < shape.micro_batches; first += round)
    write_round(shape.stages, stage, first, std::min(first + round, shape.micro_batches), order);
  return order;
}

}  // namespace

const ScheduleInfo& zero_bubble_v_schedule() {
  static constexpr ScheduleInfo row{
      .kind = ScheduleKind::zero_bubble_v,
      .name = "zero_bubble_v",
      .summary = "zero_bubble over two virtual stages, there and back: hardly a bubble",
      .rules =
          "two virtual stages for each stage, through which micro-batches go there and back "
          "(ZB-V): the first stage has the embedding and the head; every stage keeps up to 2 × "
          "`pipeline` micro-batches of one of its halves or the other, until their weight "
          "gradients are done; `virtual_stages` 2, `zero_stage` 0 to 2",
      .least_chunks = 2,
      .most_chunks = 2,
      .splits_backwards = true,
      .stage_shape = StageShape::vee,
      .order = zero_bubble_v};
  return row;
}

}  // namespace meshwright
