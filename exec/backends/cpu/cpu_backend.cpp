#include "exec/backends/cpu/cpu_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "exec/backends/cpu/cpu_updater.h"
#include "exec/backends/cpu/fused.h"
#include "exec/backends/cpu/gemm.h"
#include "exec/backends/cpu/kernels.h"
#include "exec/backends/cpu/widened.h"
#include "models/core/error.h"
#include "models/graph/experts.h"
#include "models/graph/fusion.h"
#include "models/graph/widen.h"

namespace meshwright {

namespace {

struct Row {
  Op op;
  cpu::Kernel f32, f64;
  cpu::Kernel as_stored = nullptr;  // on 16-bit elements, for what only moves them
};

#define MESHWRIGHT_ROW(name) \
  { Op::name, cpu::name<float>, cpu::name<double> }
#define MESHWRIGHT_MOVING_ROW(name) \
  { Op::name, cpu::name<float>, cpu::name<double>, cpu::name<std::uint16_t> }
// The operations this backend computes; the missing ones are collectives.
constexpr Row table[] = {
    MESHWRIGHT_MOVING_ROW(embedding),
    MESHWRIGHT_ROW(add_position),
    MESHWRIGHT_ROW(add_row),
    MESHWRIGHT_ROW(layer_norm),
    MESHWRIGHT_ROW(rms_norm),
    MESHWRIGHT_ROW(linear),
    MESHWRIGHT_ROW(add_bias),
    MESHWRIGHT_ROW(rope),
    MESHWRIGHT_ROW(attention),
    MESHWRIGHT_ROW(context_pack),
    MESHWRIGHT_ROW(context_attention),
    MESHWRIGHT_ROW(context_attention_grad),
    MESHWRIGHT_ROW(context_unpack),
    MESHWRIGHT_ROW(gelu),
    MESHWRIGHT_ROW(relu),
    MESHWRIGHT_ROW(tanh),
    MESHWRIGHT_ROW(swiglu),
    MESHWRIGHT_ROW(add),
    MESHWRIGHT_ROW(dropout),
    {Op::dropout_grad, cpu::dropout<float>, cpu::dropout<double>},
    MESHWRIGHT_MOVING_ROW(select_positions),
    MESHWRIGHT_ROW(cross_entropy),
    MESHWRIGHT_ROW(cross_entropy_stats),
    MESHWRIGHT_ROW(cross_entropy_combine),
    MESHWRIGHT_ROW(span_loss),
    MESHWRIGHT_MOVING_ROW(sequence_slice),
    MESHWRIGHT_ROW(norm_stats),
    MESHWRIGHT_ROW(norm_parts),
    MESHWRIGHT_ROW(columns_to_parts),
    MESHWRIGHT_ROW(parts_to_columns),
    MESHWRIGHT_ROW(route),
    MESHWRIGHT_MOVING_ROW(dispatch),
    MESHWRIGHT_ROW(expert_linear),
    MESHWRIGHT_ROW(combine),
    MESHWRIGHT_ROW(embedding_grad),
    MESHWRIGHT_ROW(add_position_grad),
    MESHWRIGHT_ROW(add_row_grad),
    MESHWRIGHT_ROW(layer_norm_grad),
    MESHWRIGHT_ROW(rms_norm_grad),
    MESHWRIGHT_ROW(linear_grad_input),
    MESHWRIGHT_ROW(linear_grad_weight),
    MESHWRIGHT_ROW(bias_grad),
    MESHWRIGHT_ROW(rope_grad),
    MESHWRIGHT_ROW(attention_grad),
    MESHWRIGHT_ROW(gelu_grad),
    MESHWRIGHT_ROW(relu_grad),
    MESHWRIGHT_ROW(tanh_grad),
    MESHWRIGHT_ROW(swiglu_grad),
    MESHWRIGHT_ROW(select_positions_grad),
    MESHWRIGHT_ROW(cross_entropy_grad),
    MESHWRIGHT_ROW(span_loss_grad),
    MESHWRIGHT_ROW(norm_parts_sums),
    MESHWRIGHT_ROW(norm_parts_grad),
    MESHWRIGHT_ROW(route_grad),
    MESHWRIGHT_ROW(dispatch_grad),
    MESHWRIGHT_ROW(expert_linear_grad_input),
    MESHWRIGHT_ROW(expert_linear_grad_weight),
    MESHWRIGHT_ROW(combine_grad),
    // The framework's operations.
    MESHWRIGHT_ROW(scale),
    MESHWRIGHT_ROW(add_constant),
    MESHWRIGHT_ROW(cube),
    MESHWRIGHT_ROW(cube_grad),
    MESHWRIGHT_ROW(multiply),
    MESHWRIGHT_ROW(silu),
    MESHWRIGHT_ROW(silu_grad),
    MESHWRIGHT_ROW(mean_of_squares),
    MESHWRIGHT_ROW(mean_of_squares_grad),
    MESHWRIGHT_ROW(inverse_root),
    MESHWRIGHT_ROW(inverse_root_grad),
    MESHWRIGHT_ROW(scale_rows),
    MESHWRIGHT_ROW(row_dots),
    MESHWRIGHT_ROW(scale_columns),
    MESHWRIGHT_ROW(scale_columns_grad),
    MESHWRIGHT_MOVING_ROW(split_heads),
    MESHWRIGHT_MOVING_ROW(join_heads),
    MESHWRIGHT_ROW(scores),
    MESHWRIGHT_ROW(add_alibi),
    MESHWRIGHT_ROW(mask_scores),
    MESHWRIGHT_ROW(softmax),
    MESHWRIGHT_ROW(softmax_grad),
    MESHWRIGHT_ROW(drop_probabilities),
    {Op::drop_probabilities_grad, cpu::drop_probabilities<float>, cpu::drop_probabilities<double>},
    MESHWRIGHT_ROW(weigh_values),
    MESHWRIGHT_ROW(weigh_transposed),
    MESHWRIGHT_ROW(log_softmax),
    MESHWRIGHT_ROW(log_softmax_grad),
    MESHWRIGHT_ROW(nll_loss),
    MESHWRIGHT_ROW(nll_loss_grad),
    MESHWRIGHT_ROW(rotate_half),
    MESHWRIGHT_ROW(rotate_half_grad),
    MESHWRIGHT_ROW(times_cosine),
    MESHWRIGHT_ROW(times_sine),
    // images
    MESHWRIGHT_ROW(image_patches),
    MESHWRIGHT_MOVING_ROW(prepend_row),
    MESHWRIGHT_ROW(prepend_row_grad),
    // relative positions
    MESHWRIGHT_ROW(add_relative_bias),
    MESHWRIGHT_ROW(relative_bias_grad),
    {Op::zero, cpu::zero<float>, cpu::zero<double>, cpu::zero<float>},  // looks at bytes only
    MESHWRIGHT_ROW(sum_loss),
    MESHWRIGHT_ROW(sum_of_squares),
};
#undef MESHWRIGHT_MOVING_ROW
#undef MESHWRIGHT_ROW

const Row* row_of(Op op) {
  for (const Row& row : table)
    if (row.op == op) return &row;
  return nullptr;
}

void run_16_bit(const Row& row, const cpu::KernelCall& call) {
  if (only_moves(row.op)) return row.as_stored(call);
  MESHWRIGHT_CHECK(widened_bytes(call.call) == 0 || call.context.workspace != nullptr,
                   "16-bit operands are computed with in scratch memory");
  if (is_product(row.op)) return cpu::multiply_widened(call);
  if (is_expert_product(row.op)) return cpu::multiply_experts_widened(call);
  cpu::run_widened(row.f32, call);
}

// The type of an operation's activations: that of its first operand which is not a token number.
Dtype dtype_of(const OpCall& call) {
  for (const TensorType& type : call.inputs)
    if (type.dtype != Dtype::i32) return type.dtype;
  // Only `zero` has no inputs; all it needs of its outputs is their bytes.
  return call.op == Op::zero || call.outputs.empty() ? Dtype::f32 : call.outputs[0].dtype;
}

}  // namespace

void cpu::run_operation(const KernelCall& k) {
  if (k.call.op == Op::fused) return run_fused(k);
  const Row* row = row_of(k.call.op);
  MESHWRIGHT_CHECK(row != nullptr, "the backend was asked for an operation it has not");
  if (has_16_bit(k.call)) return run_16_bit(*row, k);
  (dtype_of(k.call) == Dtype::f64 ? row->f64 : row->f32)(k);
}

namespace {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(threads) { cpu::use_one_blas_thread(); }

  std::string_view name() const override { return "cpu"; }
  bool supports(Op op, Dtype dtype) const override {
    return (op == Op::fused || row_of(op) != nullptr) && dtype != Dtype::f8 && dtype != Dtype::i32;
  }
  bool computes_in(Precision precision) const override {
    return precision != Precision::tf32 && precision != Precision::fp8;
  }
  std::int64_t workspace_bytes(const OpCall& call) const override { return scratch_bytes(call); }

  void run(const OpCall& call, const OpOperands& operands, const OpContext& context) override {
    MESHWRIGHT_CHECK(operands.inputs.size() == call.inputs.size() &&
                         operands.outputs.size() == call.outputs.size(),
                     "one address per operand");
    cpu::run_operation({call, operands, context, pool_});
  }

  std::unique_ptr<Updater> make_updater(const Training& training) override {
    return cpu::make_updater(training, pool_);
  }

  void wait() override {}

  void* allocate(std::int64_t bytes) override {
    constexpr std::size_t alignment = 64;
    const std::size_t wanted = bytes > 0 ? static_cast<std::size_t>(bytes) : 1;
    void* memory = std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void deallocate(void* memory) override { std::free(memory); }
  void* allocate_host(std::int64_t bytes) override {
    void* memory = std::calloc(static_cast<std::size_t>(std::max<std::int64_t>(1, bytes)), 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void deallocate_host(void* memory) override { std::free(memory); }

  bool shares_memory_with_host() const override { return true; }
  void read(void* host, const void* own, std::int64_t bytes) override { copy(host, own, bytes); }
  void write(void* own, const void* host, std::int64_t bytes) override { copy(own, host, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

 private:
  cpu::ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace meshwright
