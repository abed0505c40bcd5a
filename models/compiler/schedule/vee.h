// Code that the schedules share whose two chunks go through the stages there and back. The last
// stage has the middle of the model, and the first stage its beginning and its end. A backward
// therefore begins on the stage where its forward ends, without a message.
#pragma once

#include <array>
#include <cstddef>

#include "models/compiler/schedule/schedule.h"

namespace meshwright::compiler {

namespace vee {
constexpr int there = 0, back = 1;  // numbers of the two chunks
}

// Appends tasks, each with the next micro-batch of its kind and chunk. Tasks beyond the last
// micro-batch are left out.
class VeeWriter {
 public:
  // Writes the tasks of micro-batches [first, end) to `order`.
  VeeWriter(int first, int end, StageOrder& order) : first_(first), end_(end), order_(order) {}

  void forward(int chunk) { add(TaskKind::forward, chunk); }
  void backward(int chunk) { add(TaskKind::backward, chunk); }
  void weights(int chunk) { add(TaskKind::weights, chunk); }
  void both(int chunk) { backward(chunk), weights(chunk); }
  int count(TaskKind kind, int chunk) const { return counts_[at(kind)][chunk]; }

 private:
  static std::size_t at(TaskKind kind) { return static_cast<std::size_t>(kind); }
  void add(TaskKind kind, int chunk) {
    const int micro_batch = first_ + counts_[at(kind)][chunk]++;
    if (micro_batch < end_) order_.push_back({kind, chunk, micro_batch});
  }

  const int first_, end_;
  StageOrder& order_;
  std::array<std::array<int, 2>, 3> counts_{};
};

// Writes the tasks of a stage for at least `micro_batches` micro-batches. The VeeWriter leaves out
// tasks of micro-batches that do not exist.
using VeeRound = void (*)(int stages, int stage, int micro_batches, VeeWriter& write);

// Returns the order of all micro-batches, in one round. If active_microbatches is set and lower
// than 2 x stages, there are rounds of at most that many micro-batches, one after another. A round
// without a bound has at most 2 x stages micro-batches in flight. A single stage with one chunk
// runs all tasks of one micro-batch before the next.
StageOrder vee_order(PipelineShape shape, int stage, VeeRound write_round);
// Returns a lower bound of the micro-batches in flight on a stage, where one micro-batch of each of
// the two chunks counts as one.
int vee_in_flight(PipelineShape shape, int stage);

}  // namespace meshwright::compiler
