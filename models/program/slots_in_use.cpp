#include "models/program/slots_in_use.h"

#include <map>
#include <utility>

namespace meshwright::program {

namespace {

// Says which tasks bring a micro-batch into a slot (forward tasks), and which are the last that use
// it there: weights tasks if the chunk has them, otherwise backward tasks.
class Uses {
 public:
  explicit Uses(const Program& program)
      : program_(program), last_kind_(program.memory.slots.size(), Body::Kind::backward) {
    for (const Task& task : program.tasks)
      if (has_slots(task) && kind_of(task) == Body::Kind::weights)
        last_kind_[task.chunk] = Body::Kind::weights;
  }
  bool has_slots(const Task& task) const {
    return task.chunk >= 0 && task.chunk < std::ssize(last_kind_);
  }
  bool comes(const Task& task) const {
    return has_slots(task) && kind_of(task) == Body::Kind::forward;
  }
  bool goes(const Task& task) const {
    return has_slots(task) && kind_of(task) == last_kind_[task.chunk];
  }

 private:
  Body::Kind kind_of(const Task& task) const { return program_.bodies[task.body].kind; }

  const Program& program_;
  std::vector<Body::Kind> last_kind_;  // by chunk
};

std::string place(const Program& program, std::size_t task) {
  return "stage " + std::to_string(program.stage) + " task " + std::to_string(task);
}

std::string name_of(std::pair<int, int> micro_batch) {
  return "micro-batch " + std::to_string(micro_batch.second) + " of chunk " +
         std::to_string(micro_batch.first);
}

}  // namespace

std::vector<std::vector<int>> slots_in_use(const Program& program) {
  const Uses uses(program);
  std::vector<std::vector<int>> times;
  std::vector<int> now(program.memory.slots.size(), 0);
  for (const Task& task : program.tasks) {
    if (uses.comes(task)) {
      ++now[task.chunk];
      times.push_back(now);
    }
    if (uses.goes(task)) --now[task.chunk];
  }
  return times;
}

std::string wrong_slots(const Program& program) {
  const Uses uses(program);
  std::map<std::pair<int, int>, std::pair<int, int>> holds;  // pool, slot -> chunk, micro-batch
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    if (!uses.has_slots(task)) continue;
    const std::pair micro_batch{task.chunk, task.micro_batch_index};
    const std::pair slot{program.memory.pool_of(task.chunk), task.slot};
    if (uses.comes(task)) {
      const auto [held, is_free] = holds.try_emplace(slot, micro_batch);
      if (!is_free)
        return place(program, t) + " takes slot " + std::to_string(task.slot) + ", in which " +
               name_of(held->second) + " still is";
    } else if (const auto held = holds.find(slot);
               held == holds.end() || held->second != micro_batch) {
      return place(program, t) + " looks for " + name_of(micro_batch) + " in slot " +
             std::to_string(task.slot) + ", where it is not";
    }
    if (uses.goes(task)) holds.erase(slot);
  }
  return {};
}

}  // namespace meshwright::program
