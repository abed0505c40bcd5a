// Programs of equal stages, small enough to know their times by hand.
#pragma once

#include "models/plan/program.h"
#include "models/schedule/schedule.h"

namespace meshwright {

// `stages` equal stages of one compute instruction forward and two backward, joined by messages of
// one element. Enough to know the bubble by hand.
inline Program equal_stage(int stage, int stages, int micro_batches,
                           ScheduleKind schedule = ScheduleKind::one_f_one_b) {
  const bool splits = schedule_info(schedule).splits_backwards;
  Program program;
  JobSettings settings;
  settings.degrees.pipeline = stages;
  settings.training.global_batch = micro_batches;
  program.settings = std::make_shared<const JobSettings>(settings);
  program.stage = stage;
  program.micro_batches = micro_batches;
  program.memory.buffers.resize(1);
  const Operand small{0, 0, {Shape{1}, Dtype::f32}, GroupKind::none};
  const Operand large{0, 0, {Shape{1'000'000'000}, Dtype::f32}, GroupKind::none};
  const auto message = [&](InstructionKind kind, int peer) {
    Instruction made;
    made.kind = kind;
    made.stream = kind == InstructionKind::send ? Stream::pipe_send : Stream::pipe_recv;
    made.peer = peer;
    (kind == InstructionKind::send ? made.inputs : made.outputs) = {small};
    return made;
  };
  Instruction work;
  work.op = Op::zero;
  work.outputs = {large};
  for (const bool backward : {false, true}) {
    Body body{backward ? Body::Kind::backward : Body::Kind::forward, 0, {}};
    const int from = backward ? stage + 1 : stage - 1, to = backward ? stage - 1 : stage + 1;
    const bool receives = from >= 0 && from < stages;
    if (receives) body.instructions.push_back(message(InstructionKind::recv, from));
    for (int i = 0; i < (backward && !splits ? 2 : 1); ++i) {
      Instruction compute = work;
      if (receives && i == 0) compute.waits = {{Wait::Relation::same_task, -1, 0}};
      body.instructions.push_back(compute);
    }
    if (to >= 0 && to < stages) {
      Instruction send = message(InstructionKind::send, to);
      send.waits = {
          {Wait::Relation::same_task, -1, static_cast<int>(body.instructions.size()) - 1}};
      body.instructions.push_back(send);
    }
    program.bodies.push_back(body);
  }
  if (splits) program.bodies.push_back({Body::Kind::weights, 0, {work}});
  for (const ScheduledTask& task :
       schedule_info(schedule).order({stages, 1, micro_batches, 0}, stage))
    program.tasks.push_back({static_cast<int>(task.kind), 0, task.micro_batch_index, 0,
                             task.micro_batch_index == 0,
                             task.micro_batch_index + 1 == micro_batches});
  return program;
}

}  // namespace meshwright
