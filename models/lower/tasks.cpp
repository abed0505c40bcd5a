#include "models/lower/tasks.h"

#include <map>
#include <set>

#include "models/lower/draft.h"
#include "models/schedule/schedule.h"

namespace meshwright {

namespace {

// Hands out the lowest free slot of a chunk.
class Slots {
 public:
  int take(int micro_batch_index) {
    int slot = most_;
    if (free_.empty())
      ++most_;
    else
      slot = free_.extract(free_.begin()).value();
    held_[micro_batch_index] = slot;
    return slot;
  }
  int of(int micro_batch_index) const { return held_.at(micro_batch_index); }
  void give_back(int micro_batch_index) {
    const auto held = held_.find(micro_batch_index);
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
  int chunk = 0, micro_batch_index = 0;
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
Stays stays_of(const StageOrder& order, int horizon) {
  Stays stays;
  stays.loaded_before.assign(order.size(), -1);
  std::map<std::pair<int, int>, int> known;
  for (int i = 0; i < static_cast<int>(order.size()); ++i) {
    const ScheduledTask& task = order[at(i)];
    const int next = static_cast<int>(stays.all.size());
    const int index = known.try_emplace({task.chunk, task.micro_batch_index}, next).first->second;
    stays.of_task.push_back(index);
    if (task.kind == TaskKind::forward) {
      stays.all.push_back({task.chunk, task.micro_batch_index, i, 0, -1, 0});
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

StageOrder order_of(const StageDraft& draft) {
  const Parallelism& parallelism = draft.plan.parallelism;
  const PipelineShape shape{parallelism.pipeline, draft.chunks(), draft.program.micro_batches,
                            parallelism.active_microbatches};
  return schedule_info(parallelism.schedule).order(shape, draft.program.stage);
}

// Of one chunk: what it hands out to micro-batches.
struct Copies {
  bool offloads = false;  // what micro-batches keep goes to host memory
  Slots slots;
  Windows windows;
  int host_slots = 0;
};

struct Tasks {
  StageDraft& draft;
  std::vector<Copies> copies;  // per chunk
  std::vector<int> runs;       // per body: tasks so far
};

Tasks no_tasks(StageDraft& draft) {
  Tasks tasks{draft, std::vector<Copies>(at(draft.chunks())),
              std::vector<int>(draft.program.bodies.size(), 0)};
  for (int chunk = 0; chunk < draft.chunks(); ++chunk)
    tasks.copies[at(chunk)].offloads =
        offloads_tasks(draft.plan) && !draft.offloads.of_chunk[at(chunk)].empty();
  return tasks;
}

void add_task(Tasks& tasks, int body, const Stay& stay, int slot) {
  Program& program = tasks.draft.program;
  Copies& copies = tasks.copies[at(stay.chunk)];
  const int before = tasks.runs[at(body)]++;
  const bool offloaded = stay.load >= 0 && copies.offloads;
  program.tasks.push_back({body, stay.chunk, stay.micro_batch_index, slot, before == 0,
                           before + 1 == program.micro_batches, stay.window, offloaded});
  if (offloaded || offloads_layers(tasks.draft.plan)) copies.host_slots = copies.slots.most();
}

// Before pipeline task `now`.
void add_load(Tasks& tasks, Stay& stay, int now) {
  Copies& copies = tasks.copies[at(stay.chunk)];
  if (!copies.offloads) return;
  stay.window = copies.windows.take(now, stay.backward);
  add_task(tasks, tasks.draft.load_body(stay.chunk), stay, copies.slots.of(stay.micro_batch_index));
}

void add_forward(Tasks& tasks, Stay& stay, int now) {
  Copies& copies = tasks.copies[at(stay.chunk)];
  if (copies.offloads)
    stay.window = copies.windows.take(now, stay.load >= 0 ? now + 1 : stay.backward);
  add_task(tasks, tasks.draft.forward_body(stay.chunk), stay,
           copies.slots.take(stay.micro_batch_index));
}

void add_backward(Tasks& tasks, const Stay& stay, TaskKind kind) {
  const StageDraft& draft = tasks.draft;
  Slots& slots = tasks.copies[at(stay.chunk)].slots;
  const int last = draft.last_body(stay.chunk);
  const int body = kind == TaskKind::weights ? last : draft.backward_body(stay.chunk);
  add_task(tasks, body, stay, slots.of(stay.micro_batch_index));
  if (body == last) slots.give_back(stay.micro_batch_index);
}

}  // namespace

void write_tasks(StageDraft& draft) {
  const StageOrder order = order_of(draft);
  Stays stays = stays_of(order, draft.plan.parallelism.horizon());
  Tasks tasks = no_tasks(draft);
  draft.program.tasks.push_back({0, -1, -1, 0, true, true});
  for (int now = 0; now < static_cast<int>(order.size()); ++now) {
    const int loaded = stays.loaded_before[at(now)];
    if (loaded >= 0) add_load(tasks, stays.all[at(loaded)], now);
    Stay& stay = stays.all[at(stays.of_task[at(now)])];
    if (order[at(now)].kind == TaskKind::forward)
      add_forward(tasks, stay, now);
    else
      add_backward(tasks, stay, order[at(now)].kind);
  }
  draft.program.tasks.push_back({draft.end_body(), -1, -1, 0, true, true});
  for (const Copies& copies : tasks.copies) {
    draft.program.memory.slots.push_back({0, 0, copies.slots.most()});
    draft.program.memory.windows.push_back({0, 0, copies.windows.most()});
    draft.program.memory.host.push_back({0, 0, copies.host_slots});
  }
}

}  // namespace meshwright
