#include "models/plan/program.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/plan/describe.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int last_compute_of(const Body& body) {
  for (int i = static_cast<int>(body.instructions.size()) - 1; i >= 0; --i) {
    const Instruction& instruction = body.instructions[at(i)];
    if (instruction.stream == Stream::compute && instruction.when == When::always) return i;
  }
  return -1;
}

}  // namespace

bool runs(const Instruction& instruction, const Task& task) {
  switch (instruction.when) {
    case When::always:
      return true;
    case When::first_micro_batch:
      return task.first;
    case When::last_micro_batch:
      return task.last;
  }
  return true;
}

bool concerns(const Program& program, const Instruction& instruction, const Owner& rank) {
  const bool alone = instruction.group == GroupKind::none ||
                     instruction.group == GroupKind::embedding;  // one data-parallel index
  if (instruction.bucket < 0 || !alone) return true;
  return program.buckets[at(instruction.bucket)].owner.includes(rank);
}

WaitResolver::WaitResolver(const Program& program) : program_(&program) {
  const std::size_t bodies = program.bodies.size();
  std::vector<int> latest(bodies, -1);
  std::vector<std::vector<int>> with_slot(bodies);
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    const Task& now = program.tasks[task];
    latest_.insert(latest_.end(), latest.begin(), latest.end());
    for (const std::vector<int>& slots : with_slot)
      latest_with_slot_.push_back(at(now.slot) < slots.size() ? slots[at(now.slot)] : -1);
    latest[at(now.body)] = static_cast<int>(task);
    std::vector<int>& slots = with_slot[at(now.body)];
    if (slots.size() <= at(now.slot)) slots.resize(at(now.slot) + 1, -1);
    slots[at(now.slot)] = static_cast<int>(task);
  }
  for (const Body& body : program.bodies) last_compute_.push_back(last_compute_of(body));
}

RunId WaitResolver::operator()(int task, const Wait& wait) const {
  if (wait.relation == Wait::Relation::same_task) {
    const Task& now = program_->tasks[at(task)];
    const Instruction& target = program_->bodies[at(now.body)].instructions[at(wait.instruction)];
    return runs(target, now) ? RunId{task, wait.instruction} : RunId{};
  }
  if (wait.relation == Wait::Relation::previous_task) {
    if (task == 0) return {};
    return {task - 1, last_compute_[at(program_->tasks[at(task - 1)].body)]};
  }
  const std::size_t index = at(task) * program_->bodies.size() + at(wait.body);
  const int found =
      wait.relation == Wait::Relation::latest ? latest_[index] : latest_with_slot_[index];
  if (found < 0) return {};
  const int instruction = wait.instruction < 0 ? last_compute_[at(wait.body)] : wait.instruction;
  if (instruction < 0) return {};
  const Instruction& target = program_->bodies[at(wait.body)].instructions[at(instruction)];
  if (!runs(target, program_->tasks[at(found)])) return {};
  return {found, instruction};
}

RunId resolve(const Program& program, int task, const Wait& wait) {
  return WaitResolver(program)(task, wait);
}

std::string to_text(const Program& program) {
  constexpr const char* streams[] = {"compute",   "tensor_comm", "shard_comm", "pipe_send",
                                     "pipe_recv", "copy_out",    "copy_in",    "context_comm"};
  constexpr const char* bodies[] = {"forward", "backward", "weights", "step_begin", "step_end"};
  constexpr const char* relations[] = {"", "slot:", "latest:", "previous:"};
  std::string text = "stage " + std::to_string(program.stage) + "\n";
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    const Body& body = program.bodies[b];
    text += "body " + std::to_string(b) + " " + bodies[static_cast<int>(body.kind)] + " chunk " +
            std::to_string(body.chunk) + "\n";
    for (std::size_t i = 0; i < body.instructions.size(); ++i) {
      const Instruction& instruction = body.instructions[i];
      text += "  " + std::to_string(i) + " " + streams[static_cast<int>(instruction.stream)] + " " +
              std::string(name_of(instruction.kind));
      if (instruction.kind == InstructionKind::compute)
        text += " " + std::string(info(instruction.op).name);
      if (instruction.group != GroupKind::none)
        text += " over " + std::string(name_of(instruction.group));
      if (instruction.peer >= 0) text += " peer " + std::to_string(instruction.peer);
      if (instruction.when != When::always)
        text += instruction.when == When::first_micro_batch ? " first" : " last";
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
    text += " " + std::to_string(task.body) + "(m" + std::to_string(task.micro_batch) + ",s" +
            std::to_string(task.slot) + ")";
  return text + "\n";
}

}  // namespace meshwright
