#include "exec/backends/segment_backend.h"

#include <cmath>
#include <utility>

#include "exec/optimizer/learning_rate.h"

namespace meshwright::exec {

namespace {

bool is_of_segments(Op op) {
  return op == Op::segment || op == Op::segment_grad || op == Op::segment_loss ||
         op == Op::segment_loss_grad || op == Op::add || op == Op::scale;
}

// Leaves the optimizer's pass over a bucket to the script's own optimizer, where that updates.
class ScriptUpdater : public Updater {
 public:
  ScriptUpdater(Backend& backend, const StepSettings& training, const ScriptOptimizer& own)
      : backend_(backend), training_(training), own_(own), inner_(backend.make_updater(training)) {}

  void begin_step(std::int64_t step, double learning_rate, double of_mean) override {
    scalars_ = {step, learning_rate, of_mean};
    inner_->begin_step(step, learning_rate, of_mean);
  }
  void update_loss_scale(const StepSums& sums, float* scale) override {
    inner_->update_loss_scale(sums, scale);
  }
  void decide(const StepSums& sums) override {
    inner_->decide(sums);
    if (!own_.updates) return;
    if (sums.scaled != nullptr) scalars_.gradient_factor *= read(sums.scaled).inverse;
    const double norm = std::sqrt(read(sums.squared_norm)) * scalars_.gradient_factor;
    is_finite_ = std::isfinite(read(sums.loss)) && std::isfinite(norm);
    scalars_.gradient_factor *= clip_factor(norm, training_.gradient_clip);
  }
  void prepare(Op pass, int number, std::span<const OptimizerSegment> segments,
               const OptimizerState& state) override {
    inner_->prepare(pass, number, segments, state);
  }
  void update_choice_biases(int bucket, std::span<const ChoiceBias> biases,
                            const OptimizerState& state) override {
    inner_->update_choice_biases(bucket, biases, state);
  }
  void step(int number, std::span<const OptimizerSegment> segments,
            const OptimizerState& state) override {
    if (!own_.updates)
      inner_->step(number, segments, state);
    else if (is_finite_)
      own_.update(number, segments, state, scalars_);
  }

 private:
  template <typename T>
  T read(const T* value) {
    if (backend_.shares_memory_with_host()) return *value;
    T copy;
    wait_for_stream(backend_);
    backend_.read(&copy, value, sizeof copy);
    return copy;
  }

  Backend& backend_;
  const StepSettings& training_;
  const ScriptOptimizer& own_;
  std::unique_ptr<Updater> inner_;
  OptimizerScalars scalars_;
  bool is_finite_ = true;
};

class SegmentBackend : public Backend {
 public:
  SegmentBackend(Backend& inner, RunSegment run, const ScriptOptimizer& own)
      : inner_(inner), run_(std::move(run)), own_(own) {}

  std::string_view name() const override { return inner_.name(); }
  bool supports(Op op, Dtype dtype) const override {
    return is_of_segments(op) || inner_.supports(op, dtype);
  }
  bool computes_in(Precision precision) const override { return inner_.computes_in(precision); }
  std::int64_t workspace_bytes(const OpCall& call) const override {
    return is_of_segments(call.op) ? 0 : inner_.workspace_bytes(call);
  }
  std::unique_ptr<Updater> make_updater(const StepSettings& training) override {
    return std::make_unique<ScriptUpdater>(inner_, training, own_);
  }

  void begin_step(std::int64_t step_position) override { inner_.begin_step(step_position); }
  void run(const OpCall& call, const OpOperands& operands, const OpContext& context) override {
    if (is_of_segments(call.op))
      run_(call, operands, context);
    else
      inner_.run(call, operands, context);
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    inner_.copy(to, from, bytes);
  }
  void wait() override { inner_.wait(); }
  Streams* streams() override { return inner_.streams(); }
  StepCapture* capture() override { return nullptr; }

  void* allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
  void deallocate(void* memory) override { inner_.deallocate(memory); }
  void* allocate_host(std::int64_t bytes) override { return inner_.allocate_host(bytes); }
  void deallocate_host(void* memory) override { inner_.deallocate_host(memory); }
  std::int64_t used_bytes() const override { return inner_.used_bytes(); }
  bool shares_memory_with_host() const override { return inner_.shares_memory_with_host(); }
  void read(void* host, const void* own, std::int64_t bytes) override {
    inner_.read(host, own, bytes);
  }
  void write(void* own, const void* host, std::int64_t bytes) override {
    inner_.write(own, host, bytes);
  }

 private:
  Backend& inner_;
  RunSegment run_;
  const ScriptOptimizer& own_;
};

}  // namespace

std::unique_ptr<Backend> make_segment_backend(Backend& inner, RunSegment run,
                                              const ScriptOptimizer& own) {
  return std::make_unique<SegmentBackend>(inner, std::move(run), own);
}

}  // namespace meshwright::exec
