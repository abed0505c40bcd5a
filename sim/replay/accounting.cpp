#include "sim/replay/accounting.h"

#include <algorithm>
#include <limits>

namespace meshwright::sim {

namespace {

class Accountant {
 public:
  Accountant(const Script& script, const RankTimes& times, Window window)
      : script_(script), times_(times), window_(window) {
    result_.span = window.end - window.begin;
  }

  StageTimes run() {
    for (int task = 0; task < script_.tasks(); ++task) {
      const int body = script_.body_of(task);
      for (int i = script_.first_step(body, 0); i < script_.end_step(body, 0); ++i)
        add(script_.run(task, script_.steps()[i].instruction), task, i);
    }
    add_tail();
    result_.bubble = result_.span - busy_inside_ - exposed_inside_ - launch_inside_;
    return result_;
  }

 private:
  SimTime inside(SimTime begin, SimTime end) const {
    return std::max<SimTime>(0, std::min(end, window_.end) - std::max(begin, window_.begin));
  }
  SimTime end_of(int run) const { return run < 0 ? 0 : times_.end[run]; }

  const Instruction& instruction_of(int run) const {
    const RunId id = script_.run_id(run);
    const Body& body = script_.program().bodies[script_.body_of(id.task)];
    return body.instructions[id.instruction];
  }

  bool is_compute(int run) const { return instruction_of(run).stream == Stream::compute; }

  static GroupKind group_of(const Instruction& instruction) {
    const bool message =
        instruction.kind == InstructionKind::send || instruction.kind == InstructionKind::recv;
    return message ? GroupKind::pipeline : instruction.group;
  }

  void expose(const Instruction& what, SimTime begin, SimTime end) {
    if (end <= begin) return;
    result_.exposed_communication += end - begin;
    result_.exposed_by[static_cast<std::size_t>(group_of(what))] += end - begin;
    exposed_inside_ += inside(begin, end);
  }

  // Attributes the time from `free` on, in which the compute stream waited for `run` to end. Time
  // in which this communication was in flight is exposed. Before it began, the communication that
  // delayed it on this rank is exposed in the same way. The rest is time in which a peer had not
  // arrived yet.
  void blame(int run, SimTime free) {
    while (run >= 0 && times_.end[run] > free) {
      if (!is_compute(run))
        expose(instruction_of(run), std::max(free, times_.begin[run]), times_.end[run]);
      run = times_.previous[run];
    }
  }

  void add(int run, int task, int step) {
    const SimTime begin = times_.begin[run], end = times_.end[run];
    if (end < 0) return;  // this instruction does not run in this task
    const SimTime ready = std::max(free_, end_of(times_.previous[run]));
    if (ready > free_) blame(times_.previous[run], free_);
    const Body& body = script_.program().bodies[script_.body_of(task)];
    const int instruction = script_.steps()[step].instruction;
    if (body.instructions[instruction].stream == Stream::compute) {
      if (script_.steps()[step].rendezvous < 0) {
        result_.launch += begin - ready;
        launch_inside_ += inside(ready, begin);
      }
      result_.compute_busy += end - begin;
      busy_inside_ += inside(begin, end);
    } else {
      expose(body.instructions[instruction], begin,
             end);  // inline order: communication shares the lane of compute
    }
    free_ = end;
  }

  // Attributes the end of the step, which lasts until the collectives of its last task have ended
  // (weights gathered after the optimizer). A message that is still in flight does not count,
  // because only its receiver waits for it.
  void add_tail() {
    const int task = script_.tasks() - 1;
    const auto& instructions = script_.program().bodies[script_.body_of(task)].instructions;
    int last = -1;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const int run = script_.run(task, static_cast<int>(i));
      if (is_of_messages(instructions[i].stream)) continue;
      if (times_.end[run] > end_of(last)) last = run;
    }
    blame(last, free_);
  }

  const Script& script_;
  const RankTimes& times_;
  Window window_;
  StageTimes result_;
  SimTime free_ = 0, busy_inside_ = 0, exposed_inside_ = 0, launch_inside_ = 0;
};

}  // namespace

Window pipeline_window(const Script& script, const RankTimes& times) {
  Window window{std::numeric_limits<SimTime>::max(), 0};
  for (int task = 0; task < script.tasks(); ++task) {
    const int body = script.body_of(task);
    const Body::Kind kind = script.program().bodies[body].kind;
    const bool is_backward = kind == Body::Kind::backward || kind == Body::Kind::weights;
    if (kind != Body::Kind::forward && !is_backward) continue;
    for (int i = script.first_step(body, 0); i < script.end_step(body, 0); ++i) {
      const int run = script.run(task, script.steps()[i].instruction);
      if (times.end[run] < 0) continue;
      if (kind == Body::Kind::forward) window.begin = std::min(window.begin, times.begin[run]);
      if (is_backward) window.end = std::max(window.end, times.end[run]);
    }
  }
  window.begin = std::min(window.begin, window.end);
  return window;
}

StageTimes account(const Script& script, const RankTimes& times, Window window) {
  return Accountant(script, times, window).run();
}

}  // namespace meshwright::sim
