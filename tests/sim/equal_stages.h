// Makes Programs of equal stages, which are small enough to compute their times by hand.
#pragma once

#include "models/compiler/schedule/schedule.h"
#include "models/program/program.h"

namespace meshwright::tests {

// Returns the Program of one of `stages` equal stages. Each chunk (0 chunks: the least number of
// the schedule) has one compute instruction forward and two backward, joined by messages of one
// element.
inline Program equal_stage(int stage, int stages, int micro_batches,
                           ScheduleKind schedule = ScheduleKind::one_f_one_b, int chunks = 0) {
  const ScheduleInfo& info = schedule_info(schedule);
  const bool splits = info.splits_backwards;
  const int least = stages > 1 ? info.least_chunks : 1;
  const StageLayout layout{stages, chunks > 0 ? chunks : least, info.stage_shape};
  Program program;
  JobSettings settings;
  settings.degrees.pipeline = stages;
  settings.training.global_batch = micro_batches;
  program.settings = std::make_shared<const JobSettings>(settings);
  program.stage = stage;
  program.layout = layout;
  program.micro_batches = micro_batches;
  program.memory.buffers.resize(1);
  const Operand small{0, 0, {Shape{1}, Dtype::f32}, GroupKind::none};
  const Operand large{0, 0, {Shape{1'000'000'000}, Dtype::f32}, GroupKind::none};
  const auto message = [&](InstructionKind kind, int chunk, int peer) {
    Instruction made;
    made.kind = kind;
    made.peer = layout.stage_of(peer);
    made.peer_chunk = layout.chunk_of(peer);
    made.stream = stream_of_message(layout, made, chunk);
    (kind == InstructionKind::send ? made.inputs : made.outputs) = {small};
    return made;
  };
  Instruction work;
  work.op = Op::zero;
  work.outputs = {large};
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const int own = layout.virtual_stage(stage, chunk);
    const auto exists = [&](int part) { return part >= 0 && part < layout.virtual_stages(); };
    for (const bool backward : {false, true}) {
      Body body{backward ? Body::Kind::backward : Body::Kind::forward, chunk, {}};
      const int from = backward ? own + 1 : own - 1, to = backward ? own - 1 : own + 1;
      const bool receives = exists(from);
      if (receives) body.instructions.push_back(message(InstructionKind::recv, chunk, from));
      for (int i = 0; i < (backward && !splits ? 2 : 1); ++i) {
        Instruction compute = work;
        if (receives && i == 0) compute.waits = {{Wait::Relation::same_task, -1, 0}};
        body.instructions.push_back(compute);
      }
      if (exists(to)) {
        Instruction send = message(InstructionKind::send, chunk, to);
        send.waits = {
            {Wait::Relation::same_task, -1, static_cast<int>(body.instructions.size()) - 1}};
        body.instructions.push_back(send);
      }
      program.bodies.push_back(body);
    }
    if (splits) program.bodies.push_back({Body::Kind::weights, chunk, {work}});
  }
  const int bodies_per_chunk = splits ? 3 : 2;
  for (const ScheduledTask& task : info.order({stages, layout.chunks, micro_batches, 0}, stage))
    program.tasks.push_back({bodies_per_chunk * task.chunk + static_cast<int>(task.kind),
                             task.chunk, task.micro_batch_index, 0, task.micro_batch_index == 0,
                             task.micro_batch_index + 1 == micro_batches});
  return program;
}

}  // namespace meshwright::tests
