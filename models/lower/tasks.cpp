// Bodies in schedule order, and which copy of the saved activations each micro-batch uses.
#include <algorithm>
#include <map>

#include "models/core/error.h"
#include "models/lower/stage_lowering.h"
#include "models/schedule/schedule.h"

namespace meshwright {

namespace {

// Hands out the lowest free slot of a chunk.
class Slots {
 public:
  int take(int micro_batch) {
    int slot = 0;
    while (std::any_of(held_.begin(), held_.end(),
                       [&](const auto& held) { return held.second == slot; }))
      ++slot;
    held_[micro_batch] = slot;
    most_ = std::max(most_, slot + 1);
    return slot;
  }
  int of(int micro_batch) const { return held_.at(micro_batch); }
  void give_back(int micro_batch) { held_.erase(micro_batch); }
  int most() const { return most_; }

 private:
  std::map<int, int> held_;
  int most_ = 0;
};

}  // namespace

void StageLowering::write_tasks() {
  const int chunks = plan_.parallelism.virtual_stages;
  const int micro_batches = plan_.micro_batches();
  const PipelineShape shape{plan_.parallelism.pipeline, chunks, micro_batches,
                            plan_.parallelism.active_microbatches};
  std::vector<Slots> slots(static_cast<std::size_t>(chunks));
  std::vector<int> run(program_.bodies.size(), 0);
  program_.tasks.push_back({0, -1, -1, 0, true, true});
  for (const ScheduledTask& scheduled :
       schedule_info(plan_.parallelism.schedule).order(shape, stage_)) {
    Task task;
    task.chunk = scheduled.chunk;
    task.micro_batch = scheduled.micro_batch;
    task.body = scheduled.kind == Body::Kind::forward    ? forward_body(task.chunk)
                : scheduled.kind == Body::Kind::backward ? backward_body(task.chunk)
                                                         : last_body(task.chunk);
    Slots& of_chunk = slots[static_cast<std::size_t>(task.chunk)];
    task.slot = scheduled.kind == Body::Kind::forward ? of_chunk.take(task.micro_batch)
                                                      : of_chunk.of(task.micro_batch);
    if (task.body == last_body(task.chunk)) of_chunk.give_back(task.micro_batch);
    const int before = run[static_cast<std::size_t>(task.body)]++;
    task.first = before == 0;
    task.last = before + 1 == micro_batches;
    program_.tasks.push_back(task);
  }
  program_.tasks.push_back({end_body(), -1, -1, 0, true, true});
  for (const Slots& of_chunk : slots) program_.memory.slots.push_back({0, 0, of_chunk.most()});
}

}  // namespace meshwright
