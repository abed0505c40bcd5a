// Lists the operations of attention. It is one fused kernel (flash, cuDNN), or two matmuls around a
// softmax of scores that are in memory (unfused).
#include "models/program/graph/context.h"
#include "models/program/graph/documents.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

TensorType saved_by_attention(const Attributes& a, Dtype dtype) {
  const std::int64_t batch = std::int64_t{a.micro_batch} * a.heads;
  if (a.attention == AttentionKernel::unfused)
    return {Shape{batch, a.sequence_length, a.sequence_length}, dtype};
  return {Shape{batch, a.sequence_length}, Dtype::f32};
}

std::int64_t keys_values_width(const Attributes& a) {
  return std::int64_t{2} * a.kv_heads * a.head_dim;
}
// Returns the width of keys and values as they travel in a context group.
std::int64_t travelling_width(const Attributes& a) {
  return std::int64_t{2} * (a.context_of_pytorch ? a.heads : a.kv_heads) * a.head_dim;
}

// Returns the bytes of all score matrices of the micro-batch, with `size` bytes per score.
double score_bytes(const Attributes& a, double size) {
  const double s = a.sequence_length;
  return static_cast<double>(a.micro_batch) * a.heads * s * s * size;
}

// Returns the number of keys that the queries of one sequence meet in this call. In context
// parallelism these are the keys of one rank or, in a call without a ring, of all ranks.
std::int64_t keys_of(const OpCall& call) {
  const Attributes& a = call.attributes;
  const bool of_all = call.op != Op::attention && call.op != Op::attention_grad && a.ring_step < 0;
  return std::int64_t{a.sequence_length} * (of_all ? a.context_degree : 1);
}

// Appends the kernel of dropout of probabilities that are in memory, with a mask of one byte each.
// The training compiler needs none, because it makes the mask inside softmax.
void drop_probabilities(KernelList& kernels, const OpCall& call, CompilerLevel level) {
  const Attributes& a = call.attributes;
  if (a.dropout == 0 || level == CompilerLevel::full) return;
  memory_kernel(kernels, score_bytes(a, 2 * element_size(call.inputs[0]) + 1));
}

// Returns whether Megatron-LM has a fused softmax for 16-bit scores of this shape: sequences *
// heads and tokens per sequence are multiples of 4, and there are 17 to 4096 tokens
// (is_kernel_available in megatron/core/fusions/fused_softmax.py).
bool has_fused_softmax(const OpCall& call) {
  const Attributes& a = call.attributes;
  const std::int64_t heads = std::int64_t{a.micro_batch} * a.heads;
  return heads % 4 == 0 && a.sequence_length % 4 == 0 && 16 < a.sequence_length &&
         a.sequence_length <= 4096;
}

// Appends the kernels of a softmax of scores. A fused kernel moves `bytes` per score. At level
// `fused`, 16-bit scores that Megatron-LM's kernel does not accept go through the framework's
// kernels in fp32: convert, scale, mask, softmax, convert back.
void softmax_of_scores(KernelList& kernels, const OpCall& call, CompilerLevel level, double bytes) {
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

// Appends the kernels of a score cap. Frameworks divide all scores by the cap, take the tanh and
// multiply again, each in a kernel of its own. The backward pass has the same number. The training
// compiler does all of this inside softmax.
void cap_scores(KernelList& kernels, const OpCall& call, CompilerLevel level) {
  if (call.attributes.score_cap == 0 || level == CompilerLevel::full) return;
  for (int kernel = 0; kernel < 3; ++kernel)
    memory_kernel(kernels, score_bytes(call.attributes, 2 * element_size(call.inputs[0])));
}

// Appends the one kernel of fused attention. A causal kernel is taken to skip the scores of later
// keys and of other documents, but not those outside of a window or chunk. In context parallelism
// the causal mask hides half of the scores of every step, because tokens are dealt out for that
// (context.h).
void fused_attention(KernelList& kernels, const OpCall& call, double whole_flops) {
  const Attributes& a = call.attributes;
  const double met = a.causal ? 0.5 * a.document_share : 1.0;
  kernels.push_back({Kernel::Kind::attention, a.sequence_length, keys_of(call), a.head_dim,
                     std::int64_t{a.micro_batch} * a.heads, whole_flops * met,
                     bytes_of_all(call.inputs) + bytes_of_all(call.outputs)});
}

// Returns the FLOPs of attention's matmuls: `of_queries` of them are as wide as a query's head, and
// `of_values` are as wide as a value's head. Nothing is subtracted for the mask.
double flops_of_products(const OpCall& call, int of_queries, int of_values) {
  const Attributes& a = call.attributes;
  const double width = of_queries * a.head_dim + of_values * value_dim_of(a);
  return 2.0 * a.micro_batch * a.heads * a.sequence_length * static_cast<double>(keys_of(call)) *
         width;
}

double attention_flops(const OpCall& call) { return flops_of_products(call, 1, 1); }

// Returns the types of the inputs without the documents tensor. Checks the type of that tensor.
In take_documents(const Attributes& a, In in) {
  if (!a.documents) return in;
  require(is_documents(in.back(), in[0].shape[0]), "documents are the last input");
  return in.first(in.size() - 1);
}

void infer_rope(const Attributes& a, In in, Out& out) {
  require(take_documents(a, in).size() == 1, "heads turn by themselves");
  out.push_back(in[0]);
}

void infer_attention(const Attributes& a, In in, Out& out) {
  in = take_documents(a, in);
  const std::int64_t width = in.size() == 1 ? std::int64_t{a.heads + 2 * a.kv_heads} * a.head_dim
                                            : std::int64_t{a.heads} * a.head_dim;
  require(in[0].shape[1] == width, "the queries' width is heads * head_dim");
  require(in[0].shape[0] == std::int64_t{a.micro_batch} * a.sequence_length, "whole sequences");
  require(a.relative_buckets == 0 ||
              (in.size() == 4 && in[3].shape == Shape{a.relative_buckets, a.heads}),
          "the table of relative positions follows separate queries, keys and values");
  require(!a.sinks || a.attention != AttentionKernel::unfused, "sinks need the log-sum-exp");
  require(!a.sinks || (in.size() == 4 && a.relative_buckets == 0 &&
                       in[3].shape == Shape{std::int64_t{a.head_parts} * a.heads}),
          "sinks follow separate queries, keys and values");
  require(a.value_dim == 0 ||
              (in.size() == 3 && in[2].shape[1] == std::int64_t{a.kv_heads} * a.value_dim),
          "values of a width of their own are separate");
  out.push_back(matrix(in[0].shape[0], std::int64_t{a.heads} * value_dim_of(a), in[0].dtype));
  out.push_back(saved_by_attention(a, in[0].dtype));
}

// Returns the width, over all heads, of the columns that rope does not turn.
std::int64_t width_of_others(const Attributes& a) {
  return std::int64_t{a.heads} * (a.head_dim - a.rotary_dim);
}

void infer_concat_heads(const Attributes& a, In in, Out& out) {
  require(in[0].shape[1] == width_of_others(a), "heads less what is turned");
  require((a.kv_heads == 1 || a.kv_heads == a.heads) &&
              in[1].shape == Shape{in[0].shape[0], std::int64_t{a.kv_heads} * a.rotary_dim},
          "what is turned, of each head or of all");
  out.push_back(matrix(in[0].shape[0], std::int64_t{a.heads} * a.head_dim, in[0].dtype));
}

void infer_concat_heads_grad(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], width_of_others(a), in[0].dtype));
  out.push_back(matrix(in[0].shape[0], std::int64_t{a.kv_heads} * a.rotary_dim, in[0].dtype));
}

void differentiate_concat_heads(Gradients& g, const Node& node, int dy) {
  const int grad = g.make(Op::concat_heads_grad, node, {dy});
  for (int i = 0; i < 2; ++i) g.pass_on(node, node.inputs[i], g.output(grad, i));
}

void work_attention(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const Attributes& a = call.attributes;
  const double size = element_size(call.inputs[0]);
  if (a.attention != AttentionKernel::unfused) {
    fused_attention(kernels, call, attention_flops(call));
    return;
  }
  const std::int64_t batch = std::int64_t{a.micro_batch} * a.heads;
  const std::int64_t s = a.sequence_length, d = a.head_dim;
  batched_gemm(kernels, batch, {s, s, d}, size);
  cap_scores(kernels, call, level);
  softmax_of_scores(kernels, call, level, 2 * size);
  drop_probabilities(kernels, call, level);
  batched_gemm(kernels, batch, {s, value_dim_of(a), s}, size);
}

void infer_context_pack(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], travelling_width(a), in[0].dtype));
}

void infer_context_attention(const Attributes& a, In in, Out& out) {
  in = take_documents(a, in);
  require(a.causal || !a.documents, "where keys are another rank's, a causal mask tells documents");
  require(in[1].shape[1] == travelling_width(a), "keys and values of all their heads");
  require(in[0].shape[0] == std::int64_t{a.micro_batch} * a.sequence_length, "whole shares");
  require(a.attention != AttentionKernel::unfused, "parts are merged by their log-sum-exp");
  require(!adds_sinks(a) ||
              (in.size() == 3 && in[2].shape == Shape{std::int64_t{a.head_parts} * a.heads}),
          "sinks follow the keys and values of the first step");
  out.push_back(matrix(in[0].shape[0], std::int64_t{a.heads} * a.head_dim, in[0].dtype));
  out.push_back(saved_by_attention(a, in[0].dtype));
}

// Bytes of an element of a block's result and of the merged sum, in PyTorch's context parallelism.
// Its compiler makes a kernel of everything between two attentions: the first block becomes fp32,
// each further one is added to the sum, and the result is rounded (_SDPAMerger in
// torch/distributed/tensor/experimental/_attention.py).
constexpr double block_bytes = 2, sum_bytes = 4;

void work_context_attention(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const Attributes& a = call.attributes;
  work_attention(call, level, kernels);
  if (!a.context_of_pytorch) return;
  const auto elements = static_cast<double>(call.outputs[0].shape.elements());
  memory_kernel(kernels, elements * (block_bytes + sum_bytes));
  for (int block = 1; block < a.context_degree; ++block)
    memory_kernel(kernels, elements * (block_bytes + 2 * sum_bytes));
  memory_kernel(kernels, elements * (sum_bytes + block_bytes));
}

void infer_attention_grad(const Attributes& a, In in, Out& out) {
  const std::size_t tensors = a.packing == Packing::separate ? 3 : 1;
  for (std::size_t i = 0; i < tensors; ++i) out.push_back(in[i]);
}

// Appends the kernels of attention's gradient. Unfused attention computes dV, dP, softmax's
// gradient, dQ and dK. A fused kernel also recomputes the scores, so it has five matmuls.
void work_attention_grad(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const Attributes& a = call.attributes;
  const double size = element_size(call.inputs[0]);
  if (a.attention != AttentionKernel::unfused) {
    fused_attention(kernels, call, flops_of_products(call, 3, 2));
    kernels.back().backward = true;
    return;
  }
  const std::int64_t batch = std::int64_t{a.micro_batch} * a.heads;
  const std::int64_t s = a.sequence_length, d = a.head_dim;
  batched_gemm(kernels, batch, {s, value_dim_of(a), s}, size);
  batched_gemm(kernels, batch, {s, s, value_dim_of(a)}, size);
  drop_probabilities(kernels, call, level);
  softmax_of_scores(kernels, call, level, 3 * size);
  // The training compiler does not save the capped scores, so the backward pass recomputes the
  // scores.
  if (a.score_cap > 0 && level == CompilerLevel::full)
    batched_gemm(kernels, batch, {s, s, d}, size);
  cap_scores(kernels, call, level);
  if (a.relative_buckets > 0) memory_kernel(kernels, score_bytes(a, size));  // table's gradient
  batched_gemm(kernels, batch, {s, d, s}, size);
  batched_gemm(kernels, batch, {s, d, s}, size);
}

// Appends the types of dq and dkv. In PyTorch, dkv is in fp32, because the gradients of each block
// are added to sums that travel from rank to rank.
void infer_context_attention_grad(const Attributes& a, In in, Out& out) {
  out.push_back(matrix(in[0].shape[0], std::int64_t{a.heads} * a.head_dim, in[0].dtype));
  out.push_back(a.context_of_pytorch ? matrix(in[0].shape[0], travelling_width(a), Dtype::f32)
                                     : in[1]);
}

void work_context_attention_grad(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  work_attention_grad(call, level, kernels);
  if (!call.attributes.context_of_pytorch) return;
  for (const TensorType& sum : call.outputs)
    memory_kernel(kernels,
                  static_cast<double>(sum.shape.elements()) * (block_bytes + 2 * sum_bytes));
}

void infer_context_unpack(const Attributes& a, In in, Out& out) {
  const TensorType& dkv = in.back();
  const Dtype dtype = a.context_of_pytorch ? a.made : dkv.dtype;
  if (in.size() == 2)
    out.push_back(matrix(dkv.shape[0], in[0].shape[1] + keys_values_width(a), dtype));
  else
    out.assign(2, matrix(dkv.shape[0], keys_values_width(a) / 2, dtype));
}

void differentiate_attention(Gradients& g, const Node& node, int dy) {
  const bool more = node.attributes.relative_buckets > 0 || node.attributes.sinks;
  const bool packed = node.attributes.documents;
  // The number of inputs that hold queries, keys and values: one if they are packed, otherwise
  // three.
  const int count = node.inputs.size() - (more ? 1 : 0) - (packed ? 1 : 0);
  TensorIds inputs, table;
  for (int i = 0; i < count; ++i) inputs.push_back(node.inputs[i]);
  for (int id : {node.outputs[0], node.outputs[1], dy}) inputs.push_back(id);
  if (more) {
    inputs.push_back(node.inputs[count]);
    table.push_back(g.of_parameter(node.inputs[count]));
  }
  if (packed) inputs.push_back(node.inputs[node.inputs.size() - 1]);
  const int grad = g.make(Op::attention_grad, node, inputs, table);
  for (int i = 0; i < count; ++i) g.pass_on(node, node.inputs[i], g.output(grad, i));
}

void differentiate_rope(Gradients& g, const Node& node, int dy) {
  TensorIds inputs = node.inputs;
  inputs[0] = dy;
  g.make_and_pass(Op::rope_grad, node, inputs);
}

constexpr OpInfo rows[] = {
    {.op = Op::rope,
     .name = "rope",
     .takes = {1, 2},
     .split = SplitRule::heads,
     .infer = infer_rope,
     .work = work_unary,
     .differentiate = differentiate_rope,
     .widening = by_sequences(0b1, 0b1)},
    {.op = Op::concat_heads,
     .name = "concat_heads",
     .takes = 2,
     .split = SplitRule::heads,
     .infer = infer_concat_heads,
     .work = work_rewrite,
     .differentiate = differentiate_concat_heads,
     .widening = by_rows(0b11, 0b1)},
    {.op = Op::attention,
     .name = "attention",
     .takes = {1, 5},
     .makes = 2,
     .split = SplitRule::heads,
     .infer = infer_attention,
     .work = work_attention,
     .traffic = Traffic::scores,
     .model_flops = attention_flops,
     .differentiate = differentiate_attention,
     .widening = by_sequences(0b111, 0b11),
     .of_scores = true},
    {.op = Op::context_pack,
     .name = "context_pack",
     .takes = {1, 2},
     .infer = infer_context_pack,
     .work = work_rewrite},
    {.op = Op::context_attention,
     .name = "context_attention",
     .takes = {2, 5},
     .makes = 2,
     .infer = infer_context_attention,
     .work = work_context_attention,
     .model_flops = attention_flops},
    {.op = Op::rope_grad,
     .name = "rope_grad",
     .takes = {1, 2},
     .infer = infer_rope,
     .work = work_unary,
     .widening = by_sequences(0b1, 0b1)},
    {.op = Op::concat_heads_grad,
     .name = "concat_heads_grad",
     .makes = 2,
     .infer = infer_concat_heads_grad,
     .work = work_rewrite,
     .widening = by_rows(0b1, 0b11)},
    {.op = Op::attention_grad,
     .name = "attention_grad",
     .takes = {4, 8},
     .makes = {1, 4},
     .infer = infer_attention_grad,
     .work = work_attention_grad,
     .traffic = Traffic::scores,
     .widening = by_sequences(0b111111, 0b111),
     .of_scores = true},
    {.op = Op::context_attention_grad,
     .name = "context_attention_grad",
     .takes = {5, 8},
     .makes = {2, 3},
     .infer = infer_context_attention_grad,
     .work = work_context_attention_grad},
    {.op = Op::context_unpack,
     .name = "context_unpack",
     .takes = {1, 2},
     .makes = {1, 2},
     .infer = infer_context_unpack,
     .work = work_elementwise},
};

}  // namespace

std::span<const OpInfo> attention_ops() { return rows; }

}  // namespace meshwright::program
