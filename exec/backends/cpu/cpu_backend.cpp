#include "exec/backends/cpu/cpu_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "exec/backends/cpu/cpu_updater.h"
#include "exec/backends/cpu/fused.h"
#include "exec/backends/cpu/gemm.h"
#include "exec/backends/cpu/tables.h"
#include "exec/backends/cpu/widened.h"
#include "models/core/error.h"
#include "models/program/graph/experts.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_call.h"
#include "models/program/graph/quantized.h"
#include "models/program/graph/widen.h"

namespace meshwright::exec {

namespace {

void run_narrow(const cpu::Row& row, const cpu::KernelCall& call) {
  if (only_moves(row.op)) return row.as_stored(call);
  MESHWRIGHT_CHECK(widened_bytes(call.call) == 0 || call.context.workspace != nullptr,
                   "operands of 16, 8 and 4 bits are computed with in scratch memory");
  if (is_product(row.op)) return cpu::multiply_widened(call);
  if (is_expert_product(row.op)) return cpu::multiply_experts_widened(call);
  cpu::run_widened(row.f32, call);
}

// Returns the type of an operation's activations: the type of its first input that is not i32.
Dtype dtype_of(const OpCall& call) {
  for (const TensorType& type : call.inputs)
    if (type.dtype != Dtype::i32) return type.dtype;
  // Without such an input, the first output's type decides. `zero` clears bytes of any type.
  return call.op == Op::zero || call.outputs.empty() ? Dtype::f32 : call.outputs[0].dtype;
}

}  // namespace

void cpu::run_operation(const KernelCall& k) {
  if (k.call.op == Op::fused) return run_fused(k);
  const Row* row = row_of(k.call.op);
  MESHWRIGHT_CHECK(row != nullptr, "the backend was asked for an operation it has not");
  if (has_16_bit(k.call) || has_quantized_factors(k.call)) return run_narrow(*row, k);
  (dtype_of(k.call) == Dtype::f64 ? row->f64 : row->f32)(k);
}

namespace {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(threads) { cpu::use_one_blas_thread(); }

  std::string_view name() const override { return "cpu"; }
  bool supports(Op op, Dtype dtype) const override {
    if (is_quantized(dtype))  // fused: with matmuls
      return is_product(op) || is_expert_product(op) || op == Op::fused ||
             (op == Op::transpose && is_8_bit(dtype));
    return (op == Op::fused || cpu::row_of(op) != nullptr) && dtype != Dtype::i32;
  }
  bool computes_in(Precision precision) const override { return precision != Precision::tf32; }
  std::int64_t workspace_bytes(const OpCall& call) const override { return scratch_bytes(call); }

  void run(const OpCall& call, const OpOperands& operands, const OpContext& context) override {
    MESHWRIGHT_CHECK(operands.inputs.size() == call.inputs.size() &&
                         operands.outputs.size() == call.outputs.size(),
                     "one address per operand");
    cpu::run_operation({call, operands, context, pool_});
  }

  std::unique_ptr<Updater> make_updater(const StepSettings& training) override {
    return cpu::make_updater(training, pool_);
  }

  void begin_step(std::int64_t) override {}
  void wait() override {}
  Streams* streams() override { return nullptr; }
  StepCapture* capture() override { return nullptr; }

  void* allocate(std::int64_t bytes) override {
    constexpr std::size_t alignment = 64;
    const std::size_t wanted = bytes > 0 ? static_cast<std::size_t>(bytes) : 1;
    void* memory = std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void deallocate(void* memory) override { std::free(memory); }
  void* allocate_host(std::int64_t bytes) override {
    void* memory = std::calloc(std::max<std::int64_t>(1, bytes), 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void deallocate_host(void* memory) override { std::free(memory); }

  std::int64_t used_bytes() const override { return 0; }
  bool shares_memory_with_host() const override { return true; }
  void read(void* host, const void* own, std::int64_t bytes) override { copy(host, own, bytes); }
  void write(void* own, const void* host, std::int64_t bytes) override { copy(own, host, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

 private:
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace meshwright::exec
