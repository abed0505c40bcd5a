// Bodies in schedule order, which copy of the saved activations each micro-batch uses, and when
// those that wait in host memory come back.
#include <algorithm>
#include <map>
#include <set>

#include "models/core/error.h"
#include "models/lower/stage_lowering.h"
#include "models/schedule/schedule.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Hands out the lowest free slot of a chunk.
class Slots {
 public:
  int take(int micro_batch) {
    int slot = most_;
    if (free_.empty())
      ++most_;
    else
      slot = free_.extract(free_.begin()).value();
    held_[micro_batch] = slot;
    return slot;
  }
  int of(int micro_batch) const { return held_.at(micro_batch); }
  void give_back(int micro_batch) {
    const auto held = held_.find(micro_batch);
    free_.insert(held->second);
    held_.erase(held);
  }
  int most() const { return most_; }

 private:
  std::map<int, int> held_;
  std::set<int> free_;  // of those handed out before
  int most_ = 0;
};

// Hands out the lowest window of a chunk that is free at a pipeline task.
class Windows {
 public:
  int take(int task, int until) {
    std::size_t window = 0;
    while (window < until_.size() && until_[window] >= task) ++window;
    if (window == until_.size()) until_.push_back(0);
    until_[window] = until;
    return static_cast<int>(window);
  }
  int most() const { return static_cast<int>(until_.size()); }

 private:
  std::vector<int> until_;  // the last pipeline task that uses it
};

// What a micro-batch keeps on its way through a chunk, in numbers of pipeline tasks.
struct Stay {
  int chunk = 0, micro_batch = 0;
  int forward = 0, backward = 0;
  int load = -1;  // before this task it comes back; -1: it stays on the device
  int window = 0;
};

struct Stays {
  std::vector<Stay> all;
  std::vector<int> of_task;        // the stay that a pipeline task begins or ends
  std::vector<int> loaded_before;  // the one that comes back before it, -1: none
};

// What a micro-batch keeps goes out while the next task runs; where it would have to come back
// before the one after that, it stays.
Stays stays_of(const std::vector<ScheduledTask>& order, int horizon) {
  Stays stays;
  stays.loaded_before.assign(order.size(), -1);
  std::map<std::pair<int, int>, int> known;
  for (int i = 0; i < static_cast<int>(order.size()); ++i) {
    const ScheduledTask& task = order[at(i)];
    const int next = static_cast<int>(stays.all.size());
    const int index = known.try_emplace({task.chunk, task.micro_batch}, next).first->second;
    stays.of_task.push_back(index);
    if (task.kind == TaskKind::forward) {
      stays.all.push_back({task.chunk, task.micro_batch, i, 0, -1, 0});
      continue;
    }
    Stay& stay = stays.all[at(index)];
    stay.backward = i;
    if (i - horizon <= stay.forward + 2) continue;
    stay.load = i - horizon;
    stays.loaded_before[at(stay.load)] = index;
  }
  return stays;
}

}  // namespace

bool StageLowering::offloads_tasks(int chunk) const {
  return !offloads_layers() && !offloaded_[at(chunk)].empty();
}

void StageLowering::write_tasks() {
  const int chunks = plan_.parallelism.virtual_stages;
  const int micro_batches = plan_.micro_batches();
  const PipelineShape shape{plan_.parallelism.pipeline, chunks, micro_batches,
                            plan_.parallelism.active_microbatches};
  const std::vector<ScheduledTask> order =
      schedule_info(plan_.parallelism.schedule).order(shape, stage_);
  Stays stays = stays_of(order, plan_.parallelism.horizon());
  std::vector<Slots> slots(at(chunks));
  std::vector<Windows> windows(at(chunks));
  std::vector<int> host_slots(at(chunks), 0), run(program_.bodies.size(), 0);
  const auto add = [&](int body, const Stay& stay, int slot) {
    const int before = run[at(body)]++;
    const bool offloaded = stay.load >= 0 && offloads_tasks(stay.chunk);
    program_.tasks.push_back({body, stay.chunk, stay.micro_batch, slot, before == 0,
                              before + 1 == micro_batches, stay.window, offloaded});
    if (offloaded || offloads_layers()) host_slots[at(stay.chunk)] = slots[at(stay.chunk)].most();
  };
  program_.tasks.push_back({0, -1, -1, 0, true, true});
  for (int i = 0; i < static_cast<int>(order.size()); ++i) {
    const int loaded = stays.loaded_before[at(i)];
    if (loaded >= 0 && offloads_tasks(stays.all[at(loaded)].chunk)) {
      Stay& stay = stays.all[at(loaded)];
      stay.window = windows[at(stay.chunk)].take(i, stay.backward);
      add(load_body(stay.chunk), stay, slots[at(stay.chunk)].of(stay.micro_batch));
    }
    Stay& stay = stays.all[at(stays.of_task[at(i)])];
    Slots& of_chunk = slots[at(stay.chunk)];
    if (order[at(i)].kind == TaskKind::forward) {
      if (offloads_tasks(stay.chunk))
        stay.window = windows[at(stay.chunk)].take(i, stay.load >= 0 ? i + 1 : stay.backward);
      add(forward_body(stay.chunk), stay, of_chunk.take(stay.micro_batch));
      continue;
    }
    const bool splits_off = order[at(i)].kind == TaskKind::weights;
    const int body = splits_off ? last_body(stay.chunk) : backward_body(stay.chunk);
    add(body, stay, of_chunk.of(stay.micro_batch));
    if (body == last_body(stay.chunk)) of_chunk.give_back(stay.micro_batch);
  }
  program_.tasks.push_back({end_body(), -1, -1, 0, true, true});
  for (int chunk = 0; chunk < chunks; ++chunk) {
    program_.memory.slots.push_back({0, 0, slots[at(chunk)].most()});
    program_.memory.windows.push_back({0, 0, windows[at(chunk)].most()});
    program_.memory.host.push_back({0, 0, host_slots[at(chunk)]});
  }
}

}  // namespace meshwright
