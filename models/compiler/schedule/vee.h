// Code of the schedules whose two chunks go through the stages there and back. The last stage has
// the middle of the model, and the first one its beginning and its end. A backward therefore begins
// on the stage where its forward ends, without a message.
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

// Writes at least `micro_batches` micro-batches of a stage. The writer leaves out those that do not
// exist.
using VeeRound = void (*)(int stages, int stage, int micro_batches, VeeWriter& write);

// Returns the order of all micro-batches, in one round. A bound on those in flight that is lower
// than 2 x stages, which no round exceeds, leads to several rounds of that size, one after another.
// A single stage, which has one chunk, takes each micro-batch by itself.
StageOrder vee_order(PipelineShape shape, int stage, VeeRound write_round);
// Returns how many micro-batches of both chunks are in flight while no backward has come as far as
// the stage.
int vee_in_flight(PipelineShape shape, int stage);

}  // namespace meshwright::compiler
