// Attention: one kernel (flash), or two products around a softmax of scores in memory.
#include "models/graph/work.h"
#include "models/graph/work_kernels.h"

namespace meshwright {

namespace {

// Bytes of all score matrices of the micro-batch.
double score_bytes(const Attributes& a, double size) {
  const double s = a.sequence_length;
  return static_cast<double>(a.micro_batch) * a.heads * s * s * size;
}

// Keys that the queries of one sequence meet in one attention: a context-parallel one meets those
// of one rank, or of all.
std::int64_t keys_of(const OpCall& call) {
  const Attributes& a = call.attributes;
  const bool of_all = call.op != Op::attention && call.op != Op::attention_grad && a.ring_step < 0;
  return std::int64_t{a.sequence_length} * (of_all ? a.context_degree : 1);
}

// Dropout of probabilities in memory is a kernel of its own, with a mask of one byte each, except
// for the training compiler, which makes the mask inside softmax.
void drop_probabilities(Kernels& kernels, const OpCall& call, CompilerLevel level) {
  const Attributes& a = call.attributes;
  if (a.dropout == 0 || level == CompilerLevel::full) return;
  memory_kernel(kernels, score_bytes(a, 2 * element_size(call.inputs[0]) + 1));
}

// Megatron-LM's fused softmax is of 16-bit scores, in fours of heads and of tokens, and of no
// longer rows (is_kernel_available in megatron/core/fusions/fused_softmax.py).
bool has_fused_softmax(const OpCall& call) {
  const Attributes& a = call.attributes;
  const std::int64_t heads = std::int64_t{a.micro_batch} * a.heads;
  return heads % 4 == 0 && a.sequence_length % 4 == 0 && 16 < a.sequence_length &&
         a.sequence_length <= 4096;
}

// What it does not take goes through the framework's kernels, in fp32: converted, scaled, masked,
// softmax, converted back. `bytes` are moved per score by the fused kernel.
void softmax_of_scores(Kernels& kernels, const OpCall& call, CompilerLevel level, double bytes) {
  const Attributes& a = call.attributes;
  const bool is_half = element_size(call.inputs[0]) == 2;
  if (level != CompilerLevel::fused || !is_half || has_fused_softmax(call)) {
    memory_kernel(kernels, score_bytes(a, bytes));
    return;
  }
  constexpr double half = 2, single = 4;
  memory_kernel(kernels, score_bytes(a, half + single));
  memory_kernel(kernels, score_bytes(a, 2 * single));
  memory_kernel(kernels, score_bytes(a, 2 * single));
  memory_kernel(kernels, score_bytes(a, bytes / half * single));
  memory_kernel(kernels, score_bytes(a, single + half));
}

// One kernel for the whole: a causal one skips what the mask hides. The tokens of context-parallel
// ranks are dealt out such that the mask hides half of every step (context.h).
void fused_attention(Kernels& kernels, const OpCall& call, double whole_flops) {
  const Attributes& a = call.attributes;
  kernels.push_back({Kernel::Kind::attention, a.sequence_length, keys_of(call), a.head_dim,
                     std::int64_t{a.micro_batch} * a.heads, whole_flops * (a.causal ? 0.5 : 1.0),
                     bytes_of_all(call.inputs) + bytes_of_all(call.outputs)});
}

}  // namespace

double attention_flops(const OpCall& call) {
  const Attributes& a = call.attributes;
  return 4.0 * a.micro_batch * a.heads * a.sequence_length * static_cast<double>(keys_of(call)) *
         a.head_dim;
}

void work_attention(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const Attributes& a = call.attributes;
  const double size = element_size(call.inputs[0]);
  if (a.attention != AttentionKernel::unfused) {
    fused_attention(kernels, call, attention_flops(call));
    return;
  }
  const std::int64_t batch = std::int64_t{a.micro_batch} * a.heads;
  const std::int64_t s = a.sequence_length, d = a.head_dim;
  batched_gemm(kernels, batch, {s, s, d}, size);
  softmax_of_scores(kernels, call, level, 2 * size);
  drop_probabilities(kernels, call, level);
  batched_gemm(kernels, batch, {s, d, s}, size);
}

// Unfused: dV, dP, then softmax's gradient, then dQ, dK. Flash recomputes the scores: five
// products.
void work_attention_grad(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const Attributes& a = call.attributes;
  const double size = element_size(call.inputs[0]);
  if (a.attention != AttentionKernel::unfused) {
    fused_attention(kernels, call, 2.5 * attention_flops(call));
    kernels.back().backward = true;
    return;
  }
  const std::int64_t batch = std::int64_t{a.micro_batch} * a.heads;
  const std::int64_t s = a.sequence_length, d = a.head_dim;
  batched_gemm(kernels, batch, {s, d, s}, size);
  batched_gemm(kernels, batch, {s, s, d}, size);
  drop_probabilities(kernels, call, level);
  softmax_of_scores(kernels, call, level, 3 * size);
  if (a.relative_buckets > 0) memory_kernel(kernels, score_bytes(a, size));  // the table's sums
  batched_gemm(kernels, batch, {s, d, s}, size);
  batched_gemm(kernels, batch, {s, d, s}, size);
}

// Reads the scores and the bias of one sequence, which an eager framework has in memory.
void work_add_relative_bias(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, bytes(call.inputs[0]) * (2 + 1.0 / call.attributes.micro_batch));
}

}  // namespace meshwright
