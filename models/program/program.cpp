#include "models/program/program.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/program/describe.h"
#include "models/program/graph/op_table.h"
#include "models/program/timeline.h"

namespace meshwright::program {

namespace {

int last_compute_of(const Body& body) {
  for (int i = static_cast<int>(body.instructions.size()) - 1; i >= 0; --i) {
    const Instruction& instruction = body.instructions[i];
    if (instruction.stream == Stream::compute && instruction.when == When::always) return i;
  }
  return -1;
}

}  // namespace

bool runs(When when, const Task& task) {
  switch (when) {
    case When::always:
      return true;
    case When::first_micro_batch:
      return task.first;
    case When::last_micro_batch:
      return task.last;
    case When::offloaded:
      return task.offloaded;
  }
  return true;
}

bool concerns(const Program& program, const Instruction& instruction, const Owner& rank) {
  const bool alone = instruction.group == GroupKind::none ||  // one data-parallel index
                     instruction.group == GroupKind::embedding ||
                     instruction.group == GroupKind::pipeline;
  if (instruction.bucket < 0 || !alone) return true;
  return program.buckets[instruction.bucket].owner.includes(rank);
}

std::int64_t scratch_memory(const Program& program,
                            const std::function<std::int64_t(const OpCall&)>& bytes_of) {
  std::int64_t most = 0;
  std::vector<TensorType> inputs, outputs;
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions) {
      if (instruction.kind != InstructionKind::compute) continue;
      inputs.clear(), outputs.clear();
      for (const Operand& operand : instruction.inputs) inputs.push_back(operand.type);
      for (const Operand& operand : instruction.outputs) outputs.push_back(operand.type);
      OpCall call{instruction.op, instruction.attributes, inputs, outputs, instruction.overwrites};
      most = std::max(most, bytes_of(call));
      if (call.overwrites == 0 || program.micro_batches == 1) continue;
      call.overwrites = 0;
      most = std::max(most, bytes_of(call));
    }
  return most;
}

namespace {

// Remembers the latest task of every body for each slot, or for each window. These are the copies
// of a chunk's saved, or offloaded, activations (Task).
class LatestByCopy {
 public:
  explicit LatestByCopy(std::size_t bodies) : of_body_(bodies) {}
  void append_to(std::vector<int>& found, int copy) const {
    for (const std::vector<int>& tasks : of_body_)
      found.push_back(copy < std::ssize(tasks) ? tasks[copy] : -1);
  }
  void note(int body, int copy, int task) {
    std::vector<int>& tasks = of_body_[body];
    if (std::ssize(tasks) <= copy) tasks.resize(copy + 1, -1);
    tasks[copy] = task;
  }

 private:
  std::vector<std::vector<int>> of_body_;
};

}  // namespace

WaitResolver::WaitResolver(const Program& program) : program_(&program) {
  const std::size_t bodies = program.bodies.size();
  std::vector<int> latest(bodies, -1);
  LatestByCopy with_slot(bodies), with_window(bodies);
  for (int task = 0; task < static_cast<int>(program.tasks.size()); ++task) {
    const Task& now = program.tasks[task];
    latest_.insert(latest_.end(), latest.begin(), latest.end());
    with_slot.append_to(latest_with_slot_, now.slot);
    with_window.append_to(latest_with_window_, now.window);
    latest[now.body] = task;
    with_slot.note(now.body, now.slot, task);
    with_window.note(now.body, now.window, task);
  }
  for (const Body& body : program.bodies) last_compute_.push_back(last_compute_of(body));
}

RunId WaitResolver::operator()(int task, const Wait& wait) const {
  if (wait.relation == Wait::Relation::same_task) {
    const Task& now = program_->tasks[task];
    const Instruction& target = program_->bodies[now.body].instructions[wait.instruction];
    return runs(target, now) ? RunId{task, wait.instruction} : RunId{};
  }
  if (wait.relation == Wait::Relation::previous_task) {
    for (int before = task - 1; before >= 0; --before)
      if (const int last = last_compute_[program_->tasks[before].body]; last >= 0)
        return {before, last};
    return {};
  }
  const std::size_t index = task * program_->bodies.size() + wait.body;
  const auto& tasks = wait.relation == Wait::Relation::latest             ? latest_
                      : wait.relation == Wait::Relation::latest_with_slot ? latest_with_slot_
                                                                          : latest_with_window_;
  const int found = tasks[index];
  if (found < 0) return {};
  const int instruction = wait.instruction < 0 ? last_compute_[wait.body] : wait.instruction;
  if (instruction < 0) return {};
  const Instruction& target = program_->bodies[wait.body].instructions[instruction];
  if (!runs(target, program_->tasks[found])) return {};
  return {found, instruction};
}

RunId resolve(const Program& program, int task, const Wait& wait) {
  return WaitResolver(program)(task, wait);
}

std::string to_text(const Program& program) {
  constexpr const char* bodies[] = {"forward",    "backward", "weights",
                                    "step_begin", "step_end", "load"};
  constexpr const char* relations[] = {"", "slot:", "window:", "latest:", "previous:"};
  constexpr const char* whens[] = {"", " first", " last", " offloaded"};
  std::string text = "stage " + std::to_string(program.stage) + "\n";
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    const Body& body = program.bodies[b];
    text += "body " + std::to_string(b) + " " + bodies[static_cast<int>(body.kind)] + " chunk " +
            std::to_string(body.chunk) + "\n";
    for (std::size_t i = 0; i < body.instructions.size(); ++i) {
      const Instruction& instruction = body.instructions[i];
      text += "  " + std::to_string(i) + " " + std::string(name_of(instruction.stream)) + " " +
              std::string(name_of(instruction.kind));
      if (instruction.kind == InstructionKind::compute)
        text += " " + std::string(info(instruction.op).name);
      if (instruction.group != GroupKind::none)
        text += " over " + std::string(name_of(instruction.group));
      if (instruction.peer >= 0)
        text += " peer " + std::to_string(peer_virtual_stage(program, instruction));
      text += whens[static_cast<int>(instruction.when)];
      const auto list = [&](const char* label, const std::vector<Operand>& operands) {
        text += label;
        for (const Operand& operand : operands)
          text += " b" + std::to_string(operand.buffer) + "+" + std::to_string(operand.offset) +
                  ":" + std::to_string(operand.type.bytes());
      };
      list(" <-", instruction.inputs);
      list(" ->", instruction.outputs);
      for (const Wait& wait : instruction.waits)
        text += std::string(" [wait ") + relations[static_cast<int>(wait.relation)] +
                (wait.body >= 0 ? std::to_string(wait.body) + "/" : "") +
                std::to_string(wait.instruction) + "]";
      text += "\n";
    }
  }
  text += "tasks";
  for (const Task& task : program.tasks)
    text += " " + std::to_string(task.body) + "(m" + std::to_string(task.micro_batch_index) + ",s" +
            std::to_string(task.slot) + ")";
  return text + "\n";
}

}  // namespace meshwright::program
