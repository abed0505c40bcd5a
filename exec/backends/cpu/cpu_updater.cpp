#include "exec/backends/cpu/cpu_updater.h"

#include <cmath>

#include "exec/backends/cpu/orthogonal.h"
#include "exec/optimizer/adafactor.h"
#include "exec/optimizer/eager_optimizer.h"
#include "exec/optimizer/learning_rate.h"
#include "exec/optimizer/loss_scale_rule.h"

namespace meshwright::exec::cpu {

namespace {

class CpuUpdater : public Updater {
 public:
  CpuUpdater(const StepSettings& training, ThreadPool& pool) : training_(training), pool_(pool) {}

  void begin_step(std::int64_t step, double learning_rate, double of_mean) override {
    scalars_ = {step, learning_rate, 1};
    of_mean_ = of_mean;
  }

  void update_loss_scale(const StepSums& sums, float* scale) override {
    if (!std::isfinite(*sums.loss)) return;
    ScaledStep& scaled = *sums.scaled;
    const bool overflow = !std::isfinite(*sums.squared_norm);
    scaled.inverse = 1 / scaled.state.scale;
    scaled.skips = overflow ? 1 : 0;
    scaled.state = after_step(training_.settled_loss_scale(), scaled.state, overflow);
    *scale = static_cast<float>(scaled.state.scale);
  }

  void decide(const StepSums& sums) override {
    const double inverse = of_mean_ * (sums.scaled == nullptr ? 1 : sums.scaled->inverse);
    const double norm = std::sqrt(*sums.squared_norm) * inverse;
    updates_ = std::isfinite(*sums.loss) && std::isfinite(norm);
    scalars_.gradient_factor = clip_factor(norm, training_.gradient_clip) * inverse;
  }

  void prepare(Op pass, int, std::span<const OptimizerSegment> segments,
               const OptimizerState& state) override {
    if (!updates_) return;
    (pass == Op::lamb_norms        ? lamb_norms
     : pass == Op::adafactor_sums  ? adafactor_sums
     : pass == Op::adafactor_norms ? adafactor_norms
                                   : muon_momentum)(training_, scalars_, segments, state, pool_);
  }

  void update_choice_biases(int, std::span<const ChoiceBias> biases,
                            const OptimizerState& state) override {
    if (updates_) exec::update_choice_biases(training_.router_bias_update_rate, biases, state);
  }

  void step(int, std::span<const OptimizerSegment> segments, const OptimizerState& state) override {
    if (!updates_) return;
    if (state.update != nullptr)
      for (const OptimizerSegment& segment : segments)
        orthogonalize(pool_, *segment.matrix, state.updates + segment.begin, state.elements,
                      state.update + segment.begin, state.scratch);
    if (training_.compiler == CompilerLevel::none && state.update == nullptr)
      eager_optimizer_step(training_, scalars_, segments, state, pool_);
    else
      optimizer_step(training_, scalars_, segments, state, pool_);
  }

 private:
  const StepSettings& training_;
  ThreadPool& pool_;
  OptimizerScalars scalars_;
  double of_mean_ = 1;
  bool updates_ = true;
};

}  // namespace

std::unique_ptr<Updater> make_updater(const StepSettings& training, ThreadPool& pool) {
  return std::make_unique<CpuUpdater>(training, pool);
}

}  // namespace meshwright::exec::cpu
