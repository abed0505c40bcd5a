// The end of a step in a backend's memory, from the gradients' norm to new weights. A step whose
// loss or norm is not finite changes no weight. In fp16, a step in which only the norm is not
// finite changes the loss scale. Nothing here waits for the host, which looks at loss and norm
// afterwards.
#pragma once

#include <span>

#include "exec/optimizer/loss_scale_rule.h"
#include "exec/optimizer/optimizer.h"
#include "models/program/graph/op.h"

namespace meshwright::exec {

// The contents of Program::loss_scale_state_buffer, which exists in fp16.
struct ScaledStep {
  LossScaleState state;  // the next step's
  double inverse = 1;    // 1 / scale of the step in flight
  double skips = 0;      // not 0: that step makes no update
};

// The sums of a step, in the backend's memory. Both sums are f64 [1], over the whole step.
struct StepSums {
  const double* loss = nullptr;
  const double* squared_norm = nullptr;  // sum over the scaled loss's gradient
  ScaledStep* scaled = nullptr;          // fp16; else null
};

class Updater {
 public:
  virtual ~Updater() = default;

  // Called before a step is issued. `step` counts from 1 the steps that were not skipped. `of_mean`
  // multiplies gradients before all else. It differs from 1 if the mean loss is over other targets
  // than they were scaled for.
  virtual void begin_step(std::int64_t step, double learning_rate, double of_mean) = 0;

  // fp16: decides whether this step is skipped, and computes the next step's scale, f32 [1].
  virtual void update_loss_scale(const StepSums& sums, float* scale) = 0;
  // Decides whether there is an update, and the factor of the gradients. Called before the
  // functions below.
  virtual void decide(const StepSums& sums) = 0;
  // Runs a pass that an optimizer makes before the step, on a bucket or a piece of one, as
  // optimizer.h and adafactor.h say: Op::lamb_norms, Op::adafactor_sums (of a bucket of matrices),
  // Op::adafactor_norms or Op::muon_momentum (of a bucket of matrices). A `number` stands for the
  // same segments and states in every step.
  virtual void prepare(Op pass, int number, std::span<const OptimizerSegment> segments,
                       const OptimizerState& state) = 0;
  // Called for a bucket that holds choice biases of routers, after its step.
  virtual void update_choice_biases(int bucket, std::span<const ChoiceBias> biases,
                                    const OptimizerState& state) = 0;
  // Runs the step itself, as optimizer.h says.
  virtual void step(int number, std::span<const OptimizerSegment> segments,
                    const OptimizerState& state) = 0;
};

}  // namespace meshwright::exec
