#include "models/program/graph/gpu_scratch.h"

#include <algorithm>
#include <vector>

#include "models/program/graph/fusion.h"
#include "models/program/graph/op_call.h"
#include "models/program/graph/quantized.h"

namespace meshwright::program {

namespace {

constexpr std::int64_t word = 4;  // bytes of a float or an int

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t rows_of_heads(const Attributes& a) {
  return std::int64_t{a.micro_batch} * a.heads * a.sequence_length;
}

std::int64_t of_attention(const Attributes& a) {
  return (a.relative_buckets > 0 ? relative_bias_bytes(a) : 0) +
         (a.attention == AttentionKernel::unfused ? word * rows_of_heads(a) : 0);
}

std::int64_t of_attention_grad(const Attributes& a, Dtype dtype) {
  const AttentionGradScratch scratch(a, dtype);
  return word * (2 * scratch.rows + scratch.bias + scratch.distances + scratch.sums);
}

// Returns the bytes that cuDNN 9.19 asks for on an H200, for addresses that are multiples of 256.
// The backward pass needs dQ in fp32, one number for each row of a head and, if heads share keys,
// dK and dV of every head.
std::int64_t of_cudnn(const OpCall& call) {
  constexpr std::int64_t aligned = 512;
  if (call.op == Op::attention) return aligned;
  const Attributes& a = call.attributes;
  const std::int64_t rows = rows_of_heads(a), elements = rows * a.head_dim;
  const std::int64_t of_keys =
      a.kv_heads < a.heads ? 2 * elements * bytes_of(call.inputs[0].dtype) : 0;
  return word * (elements + rows) + of_keys + aligned;
}

std::int64_t with_cudnn(const OpCall& call, std::int64_t own) {
  return may_be_cudnns(call) ? std::max(own, of_cudnn(call)) : own;
}

std::int64_t of_column_sums(const TensorType& x, std::size_t sums) {
  return chunks_of_sums(x.shape[0]).bytes(x.shape[1], static_cast<std::int64_t>(sums));
}

// Returns the scratch bytes of the step that needs most among the first `steps`, on `rows` rows.
std::int64_t of_steps(const Fusion& fusion, std::size_t steps, std::int64_t rows) {
  std::int64_t most = 0;
  std::vector<TensorType> inputs, outputs;
  for (std::size_t i = 0; i < steps; ++i) {
    const FusedStep& step = fusion.steps[i];
    inputs.clear(), outputs.clear();
    for (int id : step.inputs) inputs.push_back(fusion.of_block(id, rows));
    for (int id : step.outputs) outputs.push_back(fusion.of_block(id, rows));
    most = std::max(most, gpu_scratch_bytes({step.op, step.attributes, inputs, outputs}));
  }
  return most;
}

// Returns the scratch bytes of a fusion that is one kernel: its parameter gradients, as long as the
// rows, summed for each strip of rows.
std::int64_t of_fused_kernel(const Fusion& fusion) {
  if (fusion.accumulated == 0) return 0;
  const auto first = static_cast<std::size_t>(fusion.inputs + fusion.outputs);
  const std::int64_t columns = fusion.operands[first].shape.elements();
  return strips_of_fusion(fusion.rows, columns).bytes(columns, fusion.accumulated);
}

std::int64_t of_fusion(const Fusion& fusion) {
  const std::size_t steps = fusion.steps.size();
  switch (fusion.loop) {
    case Fusion::Loop::blocks:
      return of_fused_kernel(fusion);
    case Fusion::Loop::product_first:
      return std::max(of_fused_kernel(fusion), of_steps(fusion, 1, fusion.rows));
    case Fusion::Loop::long_blocks:
      return of_steps(fusion, steps, fusion.block_rows);
    case Fusion::Loop::products:
      return of_steps(fusion, steps, fusion.rows) + fusion.internal_bytes(fusion.rows);
  }
  return 0;
}

}  // namespace

std::int64_t bytes_apart(const OpCall& call) {
  const bool sums = call.op == Op::linear_grad_weight || call.op == Op::expert_linear_grad_weight;
  if (!sums || !call.attributes.accumulate_separately) return 0;
  return call.outputs[0].shape.elements() * bytes_of(made_type(call));
}

RowChunks::RowChunks(std::int64_t rows, std::int64_t least_rows, std::int64_t most_chunks)
    : rows_of_chunk(std::max(least_rows, ceil_div(rows, most_chunks))),
      chunks(ceil_div(rows, rows_of_chunk)) {}

std::int64_t RowChunks::bytes(std::int64_t columns, std::int64_t sums) const {
  return word * sums * chunks * columns;
}

RowChunks chunks_of_sums(std::int64_t rows) { return {rows, 32, 256}; }

// Returns the chunks of rows for a norm's gradient. If thread blocks hold their rows in registers,
// there are at most as many chunks as blocks that run at once on 132 multiprocessors (those of an
// H100).
RowChunks chunks_of_norm_grad(const TensorType& x) {
  const std::int64_t rows = x.shape[0], columns = x.shape[1];
  const bool held = columns % (16 / bytes_of(x.dtype)) == 0 && columns <= longest_held_row;
  return held ? RowChunks(rows, 8, 132 * norm_grad_blocks_at_once(norm_threads(columns)))
              : chunks_of_sums(rows);
}

RowChunks strips_of_fusion(std::int64_t rows, std::int64_t columns) {
  // Each thread has 8 columns. There are at most as many strips as thread blocks that run at once
  // on 132 multiprocessors, except for short rows, which warps add up, and for long ones.
  const std::int64_t threads = ceil_div(columns, 8 * 32) * 32;
  const std::int64_t most = columns <= longest_adding_row_of_warp ? 2048
                            : columns <= longest_row_of_fused_warp
                                ? 132 * adding_blocks_at_once(threads)
                                : 512;
  return {rows, 8, most};
}

AttentionGradScratch::AttentionGradScratch(const Attributes& a, Dtype dtype)
    : rows(rows_of_heads(a)) {
  if (a.relative_buckets == 0) return;
  const std::int64_t length = a.sequence_length;
  bias = relative_bias_bytes(a) / word;
  const std::int64_t least = least_query_gradient_rows(is_16_bit(dtype), a.head_dim);
  const auto of_head = [&](std::int64_t queries) {
    return ceil_div(length, queries) * (length + queries - 1);
  };
  distances = std::int64_t{a.micro_batch} * a.heads * std::max(of_head(least), of_head(2 * least));
  sums = (2 * length - 1) * a.heads;
}

std::int64_t relative_bias_bytes(const Attributes& a) {
  return (std::int64_t{2} * a.relative_distance + 1) * a.heads * word;
}

unsigned int square_sum_blocks(std::int64_t elements) {
  constexpr std::int64_t of_block = 256 * 64, most = 1024;
  return static_cast<unsigned int>(std::clamp<std::int64_t>(ceil_div(elements, of_block), 1, most));
}

RouteScratch::RouteScratch(const Attributes& a) {
  const auto rounded_up = [](std::int64_t bytes) { return ceil_div(bytes, 16) * 16; };
  const std::int64_t tokens = std::int64_t{a.micro_batch} * a.sequence_length;
  choices = rounded_up(tokens * a.experts_per_token * word);
  softmax = rounded_up(tokens * 2 * word);
  products = rounded_up(std::int64_t{a.micro_batch} * a.experts * bytes_of(Dtype::f64));
  if (is_dropless(a)) rows = word * (a.experts + a.micro_batch);
}

namespace {

// Returns the width of a head in a norm of heads, or in its gradient.
std::int64_t norm_width_of(const OpCall& call) {
  const std::size_t weight = call.op == Op::head_norm ? 1 : 3;
  return call.inputs.size() > weight ? call.inputs[weight].shape[0] : call.attributes.head_dim;
}

std::int64_t of_head_norm_grad(const OpCall& call) {
  const std::int64_t width = norm_width_of(call);
  const Shape rows{call.inputs[0].shape.elements() / width, width};
  return chunks_of_norm_grad({rows, call.inputs[0].dtype}).bytes(width, 1);
}

}  // namespace

UnitWeight::UnitWeight(const OpCall& call) {
  const bool forward = call.op == Op::head_norm;
  if (!forward) begin = ceil_div(of_head_norm_grad(call), 16) * 16;
  if (call.inputs.size() == (forward ? 1U : 3U))
    bytes = norm_width_of(call) * bytes_of(call.inputs[0].dtype);
}

WideValues::WideValues(const OpCall& call) {
  const Attributes& a = call.attributes;
  const bool forward = call.op == Op::attention;
  begin = rounded_up(forward ? of_attention(a) : of_attention_grad(a, call.inputs[0].dtype));
  bytes = begin;
  const auto add = [&](const TensorType& type) {
    bytes += rounded_up(type.bytes() / a.value_dim * a.head_dim);
  };
  add(call.inputs[2]);
  add(call.outputs[forward ? 0 : 2]);
  for (std::size_t i : {3U, 5U})
    if (!forward) add(call.inputs[i]);
}

bool may_be_cudnns(const OpCall& call) {
  const Attributes& a = call.attributes;
  return (call.op == Op::attention || call.op == Op::attention_grad) &&
         a.attention == AttentionKernel::cudnn && is_16_bit(call.inputs[0].dtype) &&
         a.head_dim % 8 == 0 && a.head_dim <= 128 && a.value_dim == 0 && !a.alibi &&
         a.relative_buckets == 0 && a.dropout == 0 && a.window == 0 && a.chunk == 0 &&
         a.score_cap == 0 && !a.sinks && !a.documents;
}

std::int64_t gpu_scratch_bytes(const OpCall& call) {
  const Attributes& a = call.attributes;
  switch (call.op) {
    case Op::attention:
      if (a.value_dim > 0) return WideValues(call).bytes;
      return with_cudnn(call, of_attention(a));
    case Op::attention_grad:
      if (a.value_dim > 0) return WideValues(call).bytes;
      return with_cudnn(call, of_attention_grad(a, call.inputs[0].dtype));
    case Op::context_attention_grad:
      return of_attention_grad(a, call.inputs[0].dtype);
    case Op::add_relative_bias:
      return relative_bias_bytes(a);
    case Op::relative_bias_grad:
      return word * call.inputs[0].shape[0] * ceil_div(a.sequence_length, relative_strip_rows) *
             a.relative_buckets;
    case Op::linear:
    case Op::linear_grad_input:
    case Op::linear_grad_weight:
      return bytes_apart(call);
    case Op::expert_linear:
    case Op::expert_linear_grad_input:
      return is_dropless(a) ? word * a.experts : 0;
    case Op::expert_linear_grad_weight:
      return is_dropless(a) ? word * a.experts : bytes_apart(call);
    case Op::add_row_grad:
    case Op::bias_grad:
    case Op::scale_columns_grad:
      return of_column_sums(call.inputs[0], 1);
    case Op::norm_parts_sums:
      return of_column_sums(call.inputs[0], call.outputs.size() - 1);
    case Op::layer_norm_grad:
    case Op::rms_norm_grad:
      return chunks_of_norm_grad(call.inputs[0])
          .bytes(call.inputs[0].shape[1], static_cast<std::int64_t>(call.outputs.size()) - 1);
    case Op::head_norm:
    case Op::head_norm_grad: {
      const UnitWeight weight(call);
      return weight.begin + weight.bytes;
    }
    case Op::sum_of_squares:
      return bytes_of(Dtype::f64) * square_sum_blocks(call.inputs[0].shape.elements());
    case Op::embedding_grad:  // for each row of the table: how often it is read, where first and
                              // last, and where its list of tokens begins; and the lists
      return word * (4 * call.outputs[0].shape[0] + call.inputs[0].shape.elements());
    case Op::route: {
      const RouteScratch scratch(a);
      return scratch.choices + scratch.softmax + scratch.products + scratch.rows;
    }
    case Op::route_grad:
      return word * a.experts * (a.micro_batch + (is_dropless(a) ? 1 : 0));
    case Op::dispatch:
    case Op::combine_grad:  // a choice for each slot
      return word * call.outputs[0].shape[0];
    case Op::fused:
      return of_fusion(*a.fusion);
    default:
      return 0;
  }
}

}  // namespace meshwright::program
