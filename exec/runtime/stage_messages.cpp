#include "exec/runtime/stage_messages.h"

#include <algorithm>

#include "exec/runtime/instruction_kinds.h"
#include "models/core/error.h"

namespace meshwright::exec {

StageMessages::StageMessages(const RankContext& rank, const WaitResolver& resolve, Events& events,
                             TraceTimes& times)
    : rank_(rank), resolve_(resolve), events_(events), times_(times) {
  for (const Program& stage : rank.stages)
    for (const Body& body : stage.bodies)
      for (const Instruction& each : body.instructions)
        channels_ = std::max(channels_, each.channel + 1);
  if (rank.groups.contains(GroupKind::pipeline))
    messages_[0].stages = &rank.group(GroupKind::pipeline);
  messages_[1].stages = rank.stages_back.get();
  std::array<std::size_t, std::size(message_streams)> count{};
  for (int t = 0; t < std::ssize(rank.program.tasks); ++t) {
    const Task& task = rank.program.tasks[t];
    const Body& body = rank.program.bodies[task.body];
    for (int i = 0; i < std::ssize(body.instructions); ++i) {
      const Instruction& instruction = body.instructions[i];
      if (instruction.peer < 0) continue;
      count[is_back(instruction.stream) ? 1 : 0] += 1;
      if (instruction.kind == InstructionKind::recv && runs(instruction, task))
        messages(instruction.stream).to_receive.push_back({t, i});
    }
  }
  for (std::size_t i = 0; i < count.size(); ++i) {
    messages_[i].sends.reserve(count[i]);
    messages_[i].receives.reserve(count[i]);
  }
}

void StageMessages::begin_step() {
  now_ = {0, 0};
  for (Messages& each : messages_) each.posted = 0;
}

void StageMessages::post(const Instruction& instruction, const RunId& run) {
  const bool is_send = instruction.kind == InstructionKind::send;
  Messages& own = messages(instruction.stream);
  if (!is_send && own.posted > 0 && run <= own.to_receive[own.posted - 1]) return;
  rank_.use(instruction.stream);
  events_.await(run.task, instruction);
  const Task& running = rank_.program.tasks[run.task];
  const int tag = tag_of(instruction, running);
  const Operand& operand = is_send ? instruction.inputs[0] : instruction.outputs[0];
  void* data = rank_.memory.address(operand, running.slot, running.window);
  const std::int64_t bytes = operand.type.bytes();
  const SimTime begin = times_.moment();
  const Request request = is_send ? own.stages->isend(data, bytes, instruction.peer, tag)
                                  : own.stages->irecv(data, bytes, instruction.peer, tag);
  pending(instruction.stream).push_back({run, request, times_.note(run, begin)});
  own.posted += is_send ? 0 : 1;
  events_.record(run.task, run.instruction);
}

void StageMessages::receive_ahead() {
  if (rank_.world.issues_to_streams()) return;
  for (Messages& each : messages_) receive_ahead(each);
}

void StageMessages::receive_ahead(Messages& messages) {
  while (messages.posted < messages.to_receive.size()) {
    const RunId run = messages.to_receive[messages.posted];
    const Instruction& instruction = rank_.instruction(run);
    if (!std::ranges::all_of(instruction.waits,
                             [&](const Wait& wait) { return is_over(resolve_(run.task, wait)); }))
      return;
    post(instruction, run);
  }
}

bool StageMessages::is_over(const RunId& run) {
  if (run.task < 0) return true;
  if (run >= now_) return false;
  const Instruction& instruction = rank_.instruction(run);
  if (!is_message(instruction)) return true;
  const Fifo<Pending>& under_way = pending(instruction.stream);
  return under_way.empty() || under_way.front().run > run;
}

// Returns the tag of a message. Both sides compute the same tag, and all messages that two ranks
// can have in flight have different ones. A tag is made of the sending virtual stage, the
// direction, the micro-batch and the channel.
int StageMessages::tag_of(const Instruction& instruction, const Task& task) const {
  const int here = rank_.program.layout.virtual_stage(rank_.program.stage, task.chunk);
  const int there = peer_virtual_stage(rank_.program, instruction);
  const bool is_send = instruction.kind == InstructionKind::send;
  const std::int64_t sender = is_send ? here : there, receiver = is_send ? there : here;
  std::int64_t tag = sender * 2 + (sender < receiver);
  tag = tag * rank_.program.micro_batches + task.micro_batch_index;
  tag = tag * channels_ + instruction.channel;
  // A tag comes again only after far more micro-batches than are ever in flight.
  return static_cast<int>(tag % (std::int64_t{max_tag} + 1));
}

void StageMessages::wait_for(int task, const Instruction& instruction) {
  const auto is_idle = [](const Messages& each) {
    return each.sends.empty() && each.receives.empty();
  };
  if (std::ranges::all_of(messages_, is_idle)) return;
  for (const Wait& wait : instruction.waits) {
    const RunId run = resolve_(task, wait);
    if (run.task < 0) continue;
    const Instruction& awaited = rank_.instruction(run);
    if (is_message(awaited)) complete_until(awaited.stream, run);
  }
}

// Completes the messages of a stream up to `run`. A stream's instructions end in order, so whoever
// waits for one waits for those before it too.
void StageMessages::complete_until(Stream stream, const RunId& run) {
  Fifo<Pending>& under_way = pending(stream);
  while (!under_way.empty() && under_way.front().run <= run) {
    const Pending first = under_way.front();
    try {
      complete(*messages(stream).stages, first);
    } catch (const RunError& error) {
      throw RunError(rank_.describe(first.run) + ": " + error.what());
    }
    finish(first);
    under_way.pop_front();
  }
}

void StageMessages::complete_all() {
  const RunId everything{static_cast<int>(rank_.program.tasks.size()), 0};
  for (const MessageStreams& each : message_streams) {
    complete_until(each.send, everything);
    complete_until(each.recv, everything);
  }
}

void StageMessages::complete(Communicator& stages, const Pending& pending) {
  if (stages.test(pending.request)) return;
  receive_ahead();
  stages.wait(pending.request);
}

void StageMessages::make_progress() {
  for (Messages& each : messages_)
    for (Fifo<Pending>* queue : {&each.sends, &each.receives})
      while (!queue->empty() && each.stages->test(queue->front().request)) {
        finish(queue->front());
        queue->pop_front();
      }
}

void StageMessages::finish(const Pending& pending) {
  if (pending.request != 0) times_.end(pending.entry);
}

}  // namespace meshwright::exec
