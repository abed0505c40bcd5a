#include "exec/runtime/events.h"

#include <algorithm>

namespace meshwright::exec {

namespace {}  // namespace

Events::Events(const Program& program, const WaitResolver& resolve, Streams* streams)
    : program_(program), resolve_(resolve), streams_(streams) {
  if (streams == nullptr) return;
  for (const Body& body : program.bodies) first_.emplace_back(body.instructions.size(), -1);
  int slots = 1, events = 0;
  for (const Task& task : program.tasks) slots = std::max(slots, task.slot + 1);
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    for (const Instruction& waiting : program.bodies[program.tasks[t].body].instructions)
      for (const Wait& wait : waiting.waits) {
        const RunId run = resolve(static_cast<int>(t), wait);
        if (run.task < 0) continue;
        const int body = program.tasks[run.task].body;
        const Instruction& awaited = program.bodies[body].instructions[run.instruction];
        int& first = first_[body][run.instruction];
        if (awaited.stream == waiting.stream || first >= 0) continue;
        first = events;
        events += slots;
      }
  recorded_.resize(events);
}

void Events::begin_step() { std::ranges::fill(recorded_, 0); }

int Events::event_of(const RunId& run) const {
  if (run.task < 0) return -1;
  const Task& task = program_.tasks[run.task];
  const int first = first_[task.body][run.instruction];
  return first < 0 ? -1 : first + task.slot;
}

// An instruction that did not run in this step, because its task or rank has nothing to do there,
// is not waited for. If one ran again since, the later run is waited for in its place, because it
// is on the same stream.
void Events::await(int task, const Instruction& instruction) {
  if (first_.empty()) return;
  for (const Wait& wait : instruction.waits) {
    const int event = event_of(resolve_(task, wait));
    if (event >= 0 && recorded_[event] != 0) streams_->await(event);
  }
}

void Events::record(int task, int instruction) {
  if (first_.empty()) return;
  const int event = event_of({task, instruction});
  if (event < 0) return;
  streams_->record(event);
  recorded_[event] = 1;
}

}  // namespace meshwright::exec
