#include "sim/replay/memory_over_time.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

namespace meshwright::sim {

namespace {

struct Span {
  SimTime begin = std::numeric_limits<SimTime>::max(), end = 0;
  bool empty() const { return begin > end; }
  void add(Span other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

// The tasks of one micro-batch on one chunk, and when the slot of its activations is reused.
struct MicroBatch {
  int forward = -1, load = -1, backward = -1, weights = -1;  // indices of tasks; -1: none
  // The time at which the next micro-batch gets its slot.
  SimTime handed_on = std::numeric_limits<SimTime>::max();
  int last() const { return weights >= 0 ? weights : backward; }
};

class Memory {
 public:
  Memory(const Program& program, std::span<const TimelineEntry> entries) : program_(program) {
    runs_.resize(program.tasks.size());
    tasks_.resize(program.tasks.size());
    computed_.resize(program.tasks.size());
    for (std::size_t task = 0; task < runs_.size(); ++task)
      runs_[task].resize(program.bodies[program.tasks[task].body].instructions.size());
    for (const TimelineEntry& entry : entries) {
      runs_[entry.task][entry.instruction] = {entry.begin, entry.end};
      tasks_[entry.task].add({entry.begin, entry.end});
      if (instruction_of(entry).stream == Stream::compute)
        computed_[entry.task] = std::max(computed_[entry.task], entry.end);
    }
  }

  std::vector<MemoryPoint> run() {
    find_micro_batches();
    hand_slots_on();
    for (const Buffer& buffer : program_.memory.buffers) add(buffer);
    std::vector<MemoryPoint> points;
    MemoryPoint now;
    for (const auto& [time, change] : changes_) {
      for (std::size_t cls = 0; cls < now.bytes.size(); ++cls) now.bytes[cls] += change[cls];
      now.time = time;
      points.push_back(now);
    }
    return points;
  }

 private:
  const Instruction& instruction_of(const TimelineEntry& entry) const {
    return program_.bodies[program_.tasks[entry.task].body].instructions[entry.instruction];
  }

  void find_micro_batches() {
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const Task& task = program_.tasks[t];
      if (task.chunk < 0 || tasks_[t].empty()) continue;
      MicroBatch& of = micro_batches_[{task.chunk, task.micro_batch_index}];
      const int index = static_cast<int>(t);
      switch (program_.bodies[task.body].kind) {
        case Body::Kind::forward:
          of.forward = index;
          break;
        case Body::Kind::load:
          of.load = index;
          break;
        case Body::Kind::backward:
          of.backward = index;
          break;
        case Body::Kind::weights:
          of.weights = index;
          break;
        default:
          break;
      }
    }
  }

  // Records when each slot is given to the next micro-batch. That may happen before the backward
  // task has ended, as soon as all of the slot has been read.
  void hand_slots_on() {
    // By pool and slot: its micro-batches by the begin of their forward.
    std::map<std::pair<int, int>, std::map<SimTime, MicroBatch*>> users;
    for (auto& [key, of] : micro_batches_)
      if (of.forward >= 0)
        users[{program_.memory.pool_of(key.first), program_.tasks[of.forward].slot}]
             [tasks_[of.forward].begin] = &of;
    for (auto& [slot, in_turn] : users)
      for (auto now = in_turn.begin(); now != in_turn.end(); ++now)
        if (const auto next = std::next(now); next != in_turn.end())
          now->second->handed_on = next->first;
  }

  void add(const Buffer& buffer) {
    switch (buffer.region) {
      case Region::persistent:
        return live(buffer, {0, std::numeric_limits<SimTime>::max()});
      case Region::owned:
        if (buffer.owner.includes(program_.fullest))
          live(buffer, {0, std::numeric_limits<SimTime>::max()});
        return;
      case Region::task:
        for (std::size_t task = 0; task < program_.tasks.size(); ++task)
          if (program_.tasks[task].body == buffer.body && !tasks_[task].empty())
            live(buffer, between(task, buffer.first, buffer.last));
        return;
      case Region::slot:
        for (const auto& [key, of] : micro_batches_)
          if (key.first == buffer.chunk && of.forward >= 0 && of.last() >= 0)
            live(buffer, {slot_begin(of, buffer.first), slot_end(of, buffer.last)});
        return;
      case Region::window:
        for (const auto& [key, of] : micro_batches_)
          if (key.first == buffer.chunk && of.forward >= 0 && of.last() >= 0) in_window(buffer, of);
        return;
      case Region::host:
        return;
    }
  }

  void in_window(const Buffer& buffer, const MicroBatch& of) {
    const SimTime begin = tasks_[of.forward].begin, end = tasks_[of.last()].end;
    if (!program_.tasks[of.forward].offloaded) return live(buffer, {begin, end});
    live(buffer, {begin, tasks_[of.forward].end});
    live(buffer, {tasks_[of.load >= 0 ? of.load : of.backward].begin, end});
  }

  // Returns the span in which a buffer is live from instruction `first` to instruction `last` of a
  // task. Instructions that did not run in this task are left out. If none of them ran, the span is
  // empty.
  Span between(std::size_t task, int first, int last) const {
    const auto& runs = runs_[task];
    while (first <= last && !runs[first]) ++first;
    while (last >= first && !runs[last]) --last;
    return first <= last ? Span{runs[first]->begin, runs[last]->end} : Span{};
  }

  // Return when an instruction began and ended. An instruction that did not run in this task has no
  // times, so those of the task are returned.
  SimTime begin_of(std::size_t task, int instruction) const {
    const auto& run = runs_[task][instruction];
    return run ? run->begin : tasks_[task].begin;
  }
  SimTime end_of(std::size_t task, int instruction) const {
    const auto& run = runs_[task][instruction];
    return run ? run->end : tasks_[task].end;
  }

  // Decode a slot_time() (models/program/memory_plan.h): 0 means the forward task. Other values
  // name an instruction of the backward or of the weights task.
  static int place_of(int slot_time) { return (slot_time - 1) & ((1 << 24) - 1); }
  static int task_of(const MicroBatch& of, int slot_time) {
    return (slot_time - 1) >> 24 == 0 ? of.backward : of.weights;
  }
  SimTime slot_begin(const MicroBatch& of, int first) const {
    return first == 0 ? tasks_[of.forward].begin : begin_of(task_of(of, first), place_of(first));
  }
  SimTime slot_end(const MicroBatch& of, int last) const {
    const SimTime end = last == slot_always ? computed_[of.last()]
                        : last == 0         ? tasks_[of.forward].end
                                            : end_of(task_of(of, last), place_of(last));
    return std::min(end, of.handed_on);
  }

  void live(const Buffer& buffer, Span span) {
    if (span.empty()) return;
    const auto cls = static_cast<std::size_t>(buffer.cls);
    changes_[span.begin][cls] += buffer.bytes;
    if (span.end < std::numeric_limits<SimTime>::max()) changes_[span.end][cls] -= buffer.bytes;
  }

  const Program& program_;
  std::vector<std::vector<std::optional<Span>>> runs_;  // [task][instruction]
  std::vector<Span> tasks_;
  std::vector<SimTime> computed_;  // when the task's last compute instruction ended
  std::map<std::pair<int, int>, MicroBatch> micro_batches_;  // by chunk and micro-batch
  std::map<SimTime, std::array<std::int64_t, memory_class_count>> changes_;
};

}  // namespace

std::int64_t MemoryPoint::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

std::vector<MemoryPoint> memory_over_time(const Program& program,
                                          std::span<const TimelineEntry> entries) {
  return Memory(program, entries).run();
}

}  // namespace meshwright::sim
