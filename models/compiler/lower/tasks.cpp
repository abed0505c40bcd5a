#include "models/compiler/lower/tasks.h"

#include <algorithm>
#include <deque>
#include <map>

#include "models/compiler/lower/draft.h"
#include "models/compiler/schedule/schedule.h"

namespace meshwright::compiler {

namespace {

// Describes how long a micro-batch keeps activations of a chunk. Times are indices of pipeline
// tasks.
struct Stay {
  int chunk = 0, micro_batch_index = 0;
  int forward = 0, backward = 0;
  int load = -1;  // they are loaded before this task; -1: they stay on the device
  int window = 0;
};

// Assigns the slots of a chunk, or of several chunks that share them. Among shared slots it takes
// the one that has been free for longest, so that tasks rarely wait for a slot that has just been
// given back. Otherwise it takes the free slot with the lowest number.
class Slots {
 public:
  Slots(int slots, bool shared) : shared_(shared) {
    for (int slot = 0; slot < slots; ++slot) free_.push_back(slot);
  }
  int take(const Stay& stay) {
    const auto slot = shared_ ? free_.begin() : std::ranges::min_element(free_);
    const int taken = held_[key(stay)] = *slot;
    free_.erase(slot);
    most_ = std::max(most_, taken + 1);
    return taken;
  }
  int of(const Stay& stay) const { return held_.at(key(stay)); }
  void give_back(const Stay& stay) {
    const auto held = held_.find(key(stay));
    free_.push_back(held->second);
    held_.erase(held);
  }
  int most() const { return most_; }  // slots used so far: the highest number + 1

 private:
  static std::pair<int, int> key(const Stay& stay) { return {stay.chunk, stay.micro_batch_index}; }

  bool shared_;
  std::map<std::pair<int, int>, int> held_;
  std::deque<int> free_;
  int most_ = 0;
};

// Assigns the windows of a chunk: take() returns the lowest one that is free at pipeline task
// `task`, and occupies it up to task `until`.
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
  std::vector<int> until_;  // per window: the last pipeline task that uses it
};

struct Stays {
  std::vector<Stay> all;
  // Per pipeline task: the index of the stay that it begins or ends.
  std::vector<int> of_task;
  std::vector<int> loaded_before;  // per pipeline task: the stay that is loaded before it, or -1
};

// Returns the stays of a stage's micro-batches. Saved activations are copied out while the next
// task runs. They stay on the device if they would have to be loaded just before the second task
// after the forward, or earlier.
Stays stays_of(const StageOrder& order, int horizon) {
  Stays stays;
  stays.loaded_before.assign(order.size(), -1);
  std::map<std::pair<int, int>, int> known;
  for (int i = 0; i < static_cast<int>(order.size()); ++i) {
    const ScheduledTask& task = order[i];
    const int next = static_cast<int>(stays.all.size());
    const int index = known.try_emplace({task.chunk, task.micro_batch_index}, next).first->second;
    stays.of_task.push_back(index);
    if (task.kind == TaskKind::forward) {
      stays.all.push_back({task.chunk, task.micro_batch_index, i, 0, -1, 0});
      continue;
    }
    Stay& stay = stays.all[index];
    stay.backward = i;
    if (i - horizon <= stay.forward + 2) continue;
    stay.load = i - horizon;
    stays.loaded_before[stay.load] = index;
  }
  return stays;
}

// The slots and windows that one chunk assigns to micro-batches.
struct Copies {
  bool offloads = false;  // saved activations go to host memory
  Slots slots;            // used only for the first chunk of those that share slots
  Windows windows;
  int host_slots = 0;
};

struct Tasks {
  StageDraft& draft;
  std::vector<Copies> copies;  // per chunk
  std::vector<int> runs;       // per body: number of its tasks so far

  Copies& pool_of(int chunk) { return copies[draft.pools.pool_of[chunk]]; }
};

Tasks no_tasks(StageDraft& draft) {
  Tasks tasks{draft, {}, std::vector<int>(draft.program.bodies.size(), 0)};
  const SlotPools& pools = draft.pools;
  for (int chunk = 0; chunk < draft.chunks(); ++chunk) {
    const bool shared = std::ranges::count(pools.pool_of, pools.pool_of[chunk]) > 1;
    tasks.copies.push_back({offloads_tasks(draft.plan) && !draft.offloads.of_chunk[chunk].empty(),
                            Slots(pools.slots[chunk], shared),
                            {},
                            0});
  }
  return tasks;
}

void add_task(Tasks& tasks, int body, const Stay& stay, int slot) {
  Program& program = tasks.draft.program;
  Copies& pool = tasks.pool_of(stay.chunk);
  const int before = tasks.runs[body]++;
  const bool offloaded = stay.load >= 0 && tasks.copies[stay.chunk].offloads;
  program.tasks.push_back({body, stay.chunk, stay.micro_batch_index, slot, before == 0,
                           before + 1 == program.micro_batches, stay.window, offloaded});
  if (offloaded || offloads_layers(tasks.draft.plan)) pool.host_slots = pool.slots.most();
}

// Adds the task that loads a micro-batch's activations, before pipeline task `now`, if its chunk
// offloads them.
void add_load(Tasks& tasks, Stay& stay, int now) {
  Copies& copies = tasks.copies[stay.chunk];
  if (!copies.offloads) return;
  stay.window = copies.windows.take(now, stay.backward);
  add_task(tasks, tasks.draft.load_body(stay.chunk), stay,
           tasks.pool_of(stay.chunk).slots.of(stay));
}

void add_forward(Tasks& tasks, Stay& stay, int now) {
  Copies& copies = tasks.copies[stay.chunk];
  if (copies.offloads)
    stay.window = copies.windows.take(now, stay.load >= 0 ? now + 1 : stay.backward);
  add_task(tasks, tasks.draft.forward_body(stay.chunk), stay,
           tasks.pool_of(stay.chunk).slots.take(stay));
}

void add_backward(Tasks& tasks, const Stay& stay, TaskKind kind) {
  const StageDraft& draft = tasks.draft;
  Slots& slots = tasks.pool_of(stay.chunk).slots;
  const int last = draft.last_body(stay.chunk);
  const int body = kind == TaskKind::weights ? last : draft.backward_body(stay.chunk);
  add_task(tasks, body, stay, slots.of(stay));
  if (body == last) slots.give_back(stay);
}

}  // namespace

StageOrder order_of(const StageDraft& draft) {
  const Parallelism& parallelism = draft.plan.parallelism;
  const PipelineShape shape{parallelism.pipeline, draft.chunks(), draft.program.micro_batches,
                            parallelism.active_microbatches};
  return schedule_info(parallelism.schedule).order(shape, draft.program.stage);
}

void write_tasks(StageDraft& draft) {
  const StageOrder order = order_of(draft);
  Stays stays = stays_of(order, draft.plan.parallelism.horizon());
  Tasks tasks = no_tasks(draft);
  draft.program.tasks.push_back({0, -1, -1, 0, true, true});
  for (int now = 0; now < static_cast<int>(order.size()); ++now) {
    const int loaded = stays.loaded_before[now];
    if (loaded >= 0) add_load(tasks, stays.all[loaded], now);
    Stay& stay = stays.all[stays.of_task[now]];
    if (order[now].kind == TaskKind::forward)
      add_forward(tasks, stay, now);
    else
      add_backward(tasks, stay, order[now].kind);
  }
  draft.program.tasks.push_back({draft.end_body(), -1, -1, 0, true, true});
  for (int chunk = 0; chunk < draft.chunks(); ++chunk) {
    const Copies& pool = tasks.pool_of(chunk);
    draft.program.memory.slots.push_back({0, 0, draft.pools.slots[chunk]});
    draft.program.memory.windows.push_back({0, 0, tasks.copies[chunk].windows.most()});
    draft.program.memory.host.push_back({0, 0, pool.host_slots});
  }
}

}  // namespace meshwright::compiler
