#include "sim/planner/pipeline_bound.h"

#include <algorithm>

#include "models/compiler/schedule/schedule.h"

namespace meshwright::sim {

namespace {

constexpr double unknown = -1;

class Pipeline {
 public:
  explicit Pipeline(const PipelineTimes& times)
      : times_(times),
        batches_(times.micro_batches),
        stages_(times.layout.stages),
        inputs_(times.parts->size() * batches_, unknown),
        gradients_(times.parts->size() * batches_, unknown) {
    std::fill_n(inputs_.begin(), batches_, 0.0);
  }

  double run() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (int stage = 0; stage < times_.layout.stages; ++stage)
        while (run_next(stage)) goes_on = true;
    }
    double gradients = 0, after = 0;
    for (int stage = 0; stage < times_.layout.stages; ++stage) {
      const Stage& own = stages_[stage];
      gradients = std::max(
          gradients, std::max({own.compute, own.tensor, own.reductions}) + held(stage).finish);
      after = std::max(after, held(stage).after_norm());
    }
    return gradients + after;  // the norm of all gradients comes between
  }

 private:
  struct Stage {
    std::size_t next = 0;                            // index of the next task
    double compute = 0, tensor = 0, reductions = 0;  // when each has done its last work
    // When the last message has left: of chunks that pass the stages forwards, and of those that go
    // back.
    double sends = 0, sends_back = 0;
  };

  ParameterTimes held(int stage) const {
    HeldParameters parameters;
    for (int chunk = 0; chunk < times_.layout.chunks; ++chunk)
      parameters =
          parameters + (*times_.parts)[times_.layout.virtual_stage(stage, chunk)].parameters;
    return times_.per_parameter->of(parameters);
  }

  std::size_t place(int part, int micro_batch) const { return part * batches_ + micro_batch; }

  bool run_next(int stage) {
    Stage& own = stages_[stage];
    const StageOrder& order = (*times_.orders)[stage];
    if (own.next == order.size()) return false;
    const ScheduledTask& task = order[own.next];
    const int part = times_.layout.virtual_stage(stage, task.chunk);
    if (task.kind == TaskKind::forward) {
      if (!forward(own, part, task.micro_batch_index)) return false;
    } else if (task.kind == TaskKind::backward) {
      if (!backward(own, part, task.micro_batch_index)) return false;
    } else {
      own.compute += (*times_.parts)[part].weights;
    }
    ++own.next;
    return true;
  }

  // Returns when the task ends, in seconds. The longer of two waits delays it: for its input, which
  // it needs `needed_after` seconds after it begins, or for the collective of the previous task.
  double end_of(Stage& own, double lasts, double needed, double needed_after,
                double until_collective, double last) {
    const double begin = own.compute;
    const double waits =
        std::max({0.0, needed - (begin + needed_after), own.tensor - (begin + until_collective)});
    const double end = begin + waits + lasts;
    own.compute = end - last;
    own.tensor = end;
    return end;
  }

  bool forward(Stage& own, int part, int micro_batch) {
    const double input = inputs_[place(part, micro_batch)];
    if (input == unknown) return false;
    const PartTimes& times = (*times_.parts)[part];
    const double end =
        end_of(own, times.forward, input, 0, times.until_collective_forward, times.forward_last);
    if (part + 1 == times_.layout.virtual_stages())
      gradients_[place(part, micro_batch)] = end;
    else
      inputs_[place(part + 1, micro_batch)] = sent(own, part, part + 1, end);
    return true;
  }

  bool backward(Stage& own, int part, int micro_batch) {
    const double gradient = gradients_[place(part, micro_batch)];
    if (gradient == unknown) return false;
    const PartTimes& times = (*times_.parts)[part];
    const double lasts = times.backward - times.weights;
    const double end = end_of(own, lasts, gradient, times.before_gradient,
                              times.until_collective_backward, times.backward_last);
    if (part > 0)
      gradients_[place(part - 1, micro_batch)] =
          sent(own, part, part - 1, end - (times.weights > 0 ? 0 : times.after_gradient));
    reduce(own, times, end - lasts, micro_batch);
    return true;
  }

  // Returns when a message from virtual stage `part` to `to_part` arrives. Chunks that pass the
  // stages in the same direction send one message after another. Between virtual stages on the same
  // stage nothing is sent.
  double sent(Stage& own, int part, int to_part, double ready) {
    const StageLayout& layout = times_.layout;
    const int stage = layout.stage_of(part), to = layout.stage_of(to_part);
    double& sends = layout.goes_back(layout.chunk_of(part)) ? own.sends_back : own.sends;
    if (to == stage) return ready;
    const double seconds = to == stage + 1   ? times_.onwards[stage]
                           : to == stage - 1 ? times_.back[to]
                                             : 0;
    sends = std::max(sends, ready) + seconds;
    return sends;
  }

  // Adds the reductions after a backward task. The reduction of a unit's gradients begins no
  // earlier than the backward of the unit.
  void reduce(Stage& own, const PartTimes& times, double begin, int micro_batch) {
    const double each = times_.per_parameter->of(times.parameters).reduce_each;
    if (each > 0) own.reductions = std::max(own.reductions, begin) + each;
    if (!times_.per_parameter->reduces_last() || micro_batch + 1 < times_.micro_batches) return;
    double unit_begins = begin;
    for (const UnitBackward& unit : times.units) {
      own.reductions = std::max(own.reductions, unit_begins) +
                       times_.per_parameter->of(unit.parameters).hidden_last;
      if (times.weights == 0) unit_begins += unit.seconds;
    }
  }

  const PipelineTimes& times_;
  std::size_t batches_;
  std::vector<Stage> stages_;
  // When inputs and gradients have arrived, in seconds, or `unknown`. The index is virtual stage *
  // micro-batches + micro-batch.
  std::vector<double> inputs_, gradients_;
};

}  // namespace

double pipeline_bound(const PipelineTimes& times) { return Pipeline(times).run(); }

}  // namespace meshwright::sim
