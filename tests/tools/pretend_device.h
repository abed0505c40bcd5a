// Defines a device whose operations take the time that a rule says, on a clock of its own. What is
// measured on it is known in advance, and no real clock is read.
#pragma once

#include <functional>
#include <memory>

#include "exec/backends/backend.h"
#include "exec/backends/streams.h"
#include "exec/optimizer/updater.h"

namespace meshwright::tests {

class PretendDevice : public Backend, public Streams, public StepCapture {
 public:
  // Return the seconds of an operation, and of the optimizer's step over so many elements.
  std::function<double(const OpCall&)> seconds_of;
  std::function<double(std::int64_t)> optimizer_seconds;

  std::string_view name() const override { return "pretend"; }
  bool supports(Op, Dtype) const override { return true; }
  bool computes_in(Precision) const override { return true; }
  std::int64_t workspace_bytes(const OpCall&) const override { return 0; }
  std::unique_ptr<Updater> make_updater(const StepSettings&) override {
    return std::make_unique<PretendUpdater>(*this);
  }
  void begin_step(std::int64_t) override {}
  void run(const OpCall& call, const OpOperands&, const OpContext&) override {
    take(call.op == Op::zero ? 0 : seconds_of(call));
  }
  void copy(void*, const void*, std::int64_t) override {}
  void wait() override {}
  Streams* streams() override { return this; }
  StepCapture* capture() override { return this; }
  // No memory is ever read or written, so all allocations can be the same one.
  void* allocate(std::int64_t) override { return &memory_; }
  void deallocate(void*) override {}
  void* allocate_host(std::int64_t) override { return &memory_; }
  void deallocate_host(void*) override {}
  std::int64_t used_bytes() const override { return 0; }
  bool shares_memory_with_host() const override { return false; }
  void read(void*, const void*, std::int64_t) override {}
  void write(void*, const void*, std::int64_t) override {}

  void use(int) override {}
  void record(int) override {}
  void await(int) override {}
  void wait_for_stream() override {}
  void begin_stamps() override { begin_s_ = now_s_; }
  int stamp() override {
    stamped_s_ = now_s_ - begin_s_;
    return 0;
  }
  double stamped(int) override { return stamped_s_; }

  void begin() override { capturing_ = true, captured_s_ = 0; }
  void end() override { capturing_ = false; }
  void replay() override { now_s_ += captured_s_; }
  void drop() override {}

 private:
  struct PretendUpdater : Updater {
    PretendDevice& device;
    explicit PretendUpdater(PretendDevice& of) : device(of) {}
    void begin_step(std::int64_t, double, double) override {}
    void update_loss_scale(const StepSums&, float*) override {}
    void decide(const StepSums&) override {}
    void prepare(Op, int, std::span<const OptimizerSegment>, const OptimizerState&) override {}
    void update_choice_biases(int, std::span<const ChoiceBias>, const OptimizerState&) override {}
    void step(int, std::span<const OptimizerSegment> segments,
              const OptimizerState& state) override {
      // Only steps over masters of bf16 weights take time.
      if (state.working == nullptr || state.working_type != Dtype::bf16) return;
      for (const OptimizerSegment& segment : segments)
        device.take(device.optimizer_seconds(segment.count));
    }
  };

  void take(double seconds) { (capturing_ ? captured_s_ : now_s_) += seconds; }

  alignas(64) char memory_[64] = {};
  bool capturing_ = false;
  double now_s_ = 0, captured_s_ = 0, begin_s_ = 0, stamped_s_ = 0;
};

}  // namespace meshwright::tests
