#include "exec/backends/segment_backend.h"

#include <utility>

namespace meshwright::exec {

namespace {

bool is_of_segments(Op op) {
  return op == Op::segment || op == Op::segment_grad || op == Op::segment_loss ||
         op == Op::segment_loss_grad || op == Op::add || op == Op::scale;
}

class SegmentBackend : public Backend {
 public:
  SegmentBackend(Backend& inner, RunSegment run) : inner_(inner), run_(std::move(run)) {}

  std::string_view name() const override { return inner_.name(); }
  bool supports(Op op, Dtype dtype) const override {
    return is_of_segments(op) || inner_.supports(op, dtype);
  }
  bool computes_in(Precision precision) const override { return inner_.computes_in(precision); }
  std::int64_t workspace_bytes(const OpCall& call) const override {
    return is_of_segments(call.op) ? 0 : inner_.workspace_bytes(call);
  }
  std::unique_ptr<Updater> make_updater(const StepSettings& training) override {
    return inner_.make_updater(training);
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
};

}  // namespace

std::unique_ptr<Backend> make_segment_backend(Backend& inner, RunSegment run) {
  return std::make_unique<SegmentBackend>(inner, std::move(run));
}

}  // namespace meshwright::exec
