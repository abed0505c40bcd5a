// A backend for tests of the CUDA tables on the emulated device (tests/cuda_emulation). Operands
// are in host memory and are copied in and out around each operation.
#pragma once

#include <memory>
#include <set>

#include "exec/backends/backend.h"
#include "exec/backends/cuda/attention/attention_library.h"
#include "models/program/graph/op_call.h"

namespace meshwright::tests {

// Returns the properties of the device under test for kernels, without objects that kernels share.
cuda::Device device_under_test();

// Runs every operation that has a row twice, with the threads in both orders. Throws
// std::logic_error if they give different bits. Operations without a row go to the CPU backend.
class TableBackend : public Backend {
 public:
  TableBackend();
  ~TableBackend() override;
  std::string_view name() const override { return "cuda tables"; }
  bool supports(Op op, Dtype dtype) const override;
  bool computes_in(Precision precision) const override { return cpu_->computes_in(precision); }
  std::int64_t workspace_bytes(const OpCall& call) const override;
  void run(const OpCall& call, const OpOperands& operands, const OpContext& context) override;
  void begin_step(std::int64_t) override {}
  void wait() override {}
  Streams* streams() override { return nullptr; }
  StepCapture* capture() override { return nullptr; }
  void* allocate(std::int64_t bytes) override { return cpu_->allocate(bytes); }
  void deallocate(void* memory) override { cpu_->deallocate(memory); }
  void copy(void* to, const void* from, std::int64_t bytes) override;
  std::unique_ptr<Updater> make_updater(const StepSettings& training) override {
    return cpu_->make_updater(training);
  }
  void* allocate_host(std::int64_t bytes) override { return cpu_->allocate_host(bytes); }
  void deallocate_host(void* memory) override { cpu_->deallocate_host(memory); }
  std::int64_t used_bytes() const override { return 0; }
  bool shares_memory_with_host() const override { return true; }
  void read(void* host, const void* own, std::int64_t bytes) override { copy(host, own, bytes); }
  void write(void* own, const void* host, std::int64_t bytes) override { copy(own, host, bytes); }

  // If set, throws std::logic_error if an operation takes other scratch memory than
  // models/program/graph/gpu_scratch.h plans for it.
  bool has_planned_scratch = true;
  // If set, throws std::logic_error if both runs give different bits.
  bool repeats_bits = true;
  // Runs attention by a library wherever the library has a kernel.
  void take_attention_of(std::unique_ptr<cuda::AttentionLibrary> library);
  std::set<Op> ran;  // from the tables

 private:
  struct Device;
  std::unique_ptr<Backend> cpu_;
  std::unique_ptr<Device> device_;
};

}  // namespace meshwright::tests
