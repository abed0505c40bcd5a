// Tests the order that communicators on device memory (exec/comm/nccl.h) rely on. The k-th message
// that one rank sends to another in one direction is the k-th that the other receives from it in
// that direction, whatever the channel. Gradients that have been reduced into a sum are not read
// again.
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

// A message from virtual stage `from` to virtual stage `to`.
struct Sent {
  int from, to, channel, micro_batch;
  std::int64_t bytes;
  bool operator==(const Sent&) const = default;
};
// Messages by sending stage, receiving stage and direction.
using Messages = std::map<std::tuple<int, int, bool>, std::vector<Sent>>;

void add_messages(const Program& program, Messages& sent, Messages& received) {
  for (const Task& task : program.tasks)
    for (const Instruction& instruction : program.bodies[task.body].instructions) {
      const bool sends = instruction.kind == InstructionKind::send;
      if ((!sends && instruction.kind != InstructionKind::recv) || !runs(instruction, task))
        continue;
      CHECK(instruction.stream == stream_of_message(program.layout, instruction, task.chunk));
      const int here = program.layout.virtual_stage(program.stage, task.chunk);
      const int there = peer_virtual_stage(program, instruction);
      const Operand& operand = sends ? instruction.inputs[0] : instruction.outputs[0];
      const Sent message{sends ? here : there, sends ? there : here, instruction.channel,
                         task.micro_batch_index, operand.type.bytes()};
      const int own = program.stage, other = instruction.peer;
      const bool back = is_back(instruction.stream);
      (sends ? sent[{own, other, back}] : received[{other, own, back}]).push_back(message);
    }
}

// Tracks which bytes of a buffer hold gradients, from when they are cleared until they are reduced.
class LiveGradients {
 public:
  explicit LiveGradients(const Program& program) : program_(program) {
    for (const Body& body : program.bodies)
      for (const Instruction& instruction : body.instructions)
        if (instruction.accumulate) live_[instruction.inputs[0].buffer];
  }
  bool any() const { return !live_.empty(); }

  // Returns whether the body reads only bytes that hold gradients.
  bool hold(const Body& body) {
    for (auto& [buffer, bytes] : live_)
      bytes.assign(static_cast<std::size_t>(program_.memory.buffers[buffer].bytes), false);
    for (const Instruction& instruction : body.instructions) {
      if (instruction.op == Op::zero && instruction.kind == InstructionKind::compute) {
        set(instruction.outputs[0], true);
        continue;
      }
      for (const auto* operands : {&instruction.inputs, &instruction.outputs})
        for (const Operand& operand : *operands)
          if (!all_live(operand)) return false;
      if (instruction.accumulate) set(instruction.inputs[0], false);
    }
    return true;
  }

 private:
  void set(const Operand& operand, bool live) {
    const auto found = live_.find(operand.buffer);
    if (found == live_.end()) return;
    for (std::int64_t i = 0; i < operand.type.bytes(); ++i)
      found->second[static_cast<std::size_t>(operand.offset + i)] = live;
  }
  bool all_live(const Operand& operand) const {
    const auto found = live_.find(operand.buffer);
    if (found == live_.end()) return true;
    for (std::int64_t i = 0; i < operand.type.bytes(); ++i)
      if (!found->second[static_cast<std::size_t>(operand.offset + i)]) return false;
    return true;
  }

  const Program& program_;
  std::map<int, std::vector<bool>> live_;
};

}  // namespace

TEST_CASE("what one rank sends to another arrives in the order of sending", "[models][lower]") {
  std::set<ScheduleKind> schedules;
  std::size_t messages = 0;
  const Model model = small_model("gpt");
  for (const Plan& plan : small_plans(model)) {
    if (plan.parallelism.pipeline == 1) continue;
    INFO(describe(plan));
    const std::vector<Program> stages = lower_small(model, plan);
    Messages sent, received;
    for (const Program& program : stages) add_messages(program, sent, received);
    CHECK(sent == received);
    for (const auto& [way, list] : sent) messages += list.size();
    schedules.insert(plan.parallelism.schedule);
  }
  CHECK(schedules.size() == schedule_names().size());
  CHECK(messages > 1000);
}

TEST_CASE("gradients that have been added to their sum are cleared before they are used again",
          "[models][lower]") {
  const Model model = small_model("gpt");
  int programs = 0;
  for (const Plan& plan : small_plans(model)) {
    INFO(describe(plan));
    for (const Program& program : lower_small(model, plan)) {
      LiveGradients gradients(program);
      if (!gradients.any()) continue;
      ++programs;
      for (const Body& body : program.bodies) CHECK(gradients.hold(body));
    }
  }
  CHECK(programs > 10);
}
