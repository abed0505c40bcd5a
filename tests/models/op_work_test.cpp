// Compares the kernels, FLOPs and bytes of every operation with those of a small example that were
// counted by hand.
//
// Two sequences of four tokens make eight rows of six columns. In bf16 such a matrix has
// 8 * 6 * 2 = 96 bytes, its fp32 copy 192.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/kernels.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

using Types = std::vector<TensorType>;
using Kernels = std::vector<Kernel>;

TensorType half(const Shape& shape) { return {shape, Dtype::bf16}; }
TensorType word(const Shape& shape) { return {shape, Dtype::f32}; }
TensorType whole(const Shape& shape) { return {shape, Dtype::i32}; }
TensorType twice(const Shape& shape) { return {shape, Dtype::f64}; }
TensorType eight_bits(const Shape& shape) { return {shape, Dtype::e4m3}; }

const TensorType x = half({8, 6}), wide = word({8, 6}), tokens = whole({8});

Kernel memory(double bytes, double gelus = 0) {
  Kernel kernel;
  kernel.bytes = bytes;
  kernel.gelus = gelus;
  return kernel;
}
Kernel joined(double bytes) {
  Kernel kernel = memory(bytes);
  kernel.joins_neighbour = true;
  return kernel;
}
Kernel product_of(std::int64_t m, std::int64_t n, std::int64_t k, double flops, double bytes) {
  return {Kernel::Kind::gemm, m, n, k, 1, flops, bytes};
}
// Returns the kernel of a grouped matrix multiplication of four experts.
Kernel expert_product_of(std::int64_t m, std::int64_t n, std::int64_t k, double flops,
                         double bytes) {
  return {Kernel::Kind::gemm, m, n, k, 4, flops, bytes};
}
Kernel quantized(Kernel kernel) {
  kernel.quantized = true;
  return kernel;
}
// Returns the kernel of a batched matrix multiplication of four heads: two in each of two
// sequences.
Kernel of_heads(std::int64_t m, std::int64_t n, std::int64_t k, double flops, double bytes) {
  return {Kernel::Kind::batched_gemm, m, n, k, 4, flops, bytes};
}
Kernel flash(std::int64_t keys, double flops, double bytes) {
  return {Kernel::Kind::attention, 4, keys, 3, 4, flops, bytes};
}
Kernel flash_backward(std::int64_t keys, double flops, double bytes) {
  Kernel kernel = flash(keys, flops, bytes);
  kernel.backward = true;
  return kernel;
}
Kernels operator+(Kernels a, const Kernels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Kernels times(int count, const Kernel& kernel) {
  return Kernels(static_cast<std::size_t>(count), kernel);
}

// The kernels of an operation at each compiler level.
struct Levels {
  Kernels none, fused, full;
  Levels(Kernels all) : none(all), fused(all), full(all) {}
  Levels(std::initializer_list<Kernel> all) : Levels(Kernels(all)) {}
  Levels(Kernels eager, Kernels by_hand, Kernels compiled)
      : none(std::move(eager)), fused(std::move(by_hand)), full(std::move(compiled)) {}
  const Kernels& at(CompilerLevel level) const {
    return level == CompilerLevel::none ? none : level == CompilerLevel::fused ? fused : full;
  }
};
const Levels nothing_runs{Kernels{}};
Levels by_level(Kernels none, Kernels fused, Kernels full) {
  return {std::move(none), std::move(fused), std::move(full)};
}
Levels eager_and_by_hand(const Kernels& both, Kernels compiled) {
  return {both, both, std::move(compiled)};
}
Levels eager(Kernels alone, const Kernels& others) { return {std::move(alone), others, others}; }

struct Example {
  Op op;
  Attributes a;
  Types in, out;  // with the gradients of parameters
  Levels kernels;
  double flops = 0;  // of the model
};

// Returns attributes of two heads of three columns that share one key and value.
Attributes plain() {
  Attributes a;
  a.micro_batch = 2;
  a.sequence_length = 4;
  a.heads = 2;
  a.kv_heads = 1;
  a.head_dim = 3;
  return a;
}
template <class Change>
Attributes with(Change change) {
  Attributes a = plain();
  change(a);
  return a;
}

std::vector<Example> elementwise_examples() {
  const Attributes a = plain();
  // Dropout reads and writes 96 bytes, and its mask has a byte for each of 48 elements. Together
  // they are 2 * 96 + 48 = 240 bytes.
  const Levels dropped = by_level({memory(240)}, {joined(48)}, {});
  // In fp32 an element has 4 bytes: converting moves 96 + 192, and dropout 2 * 192 + 48.
  const Attributes dropping_wide = with([](Attributes& to) {
    to.dropout = 0.1;
    to.drops_in_fp32 = true;
  });
  const Levels dropped_grad = by_level({memory(240)}, {memory(240)}, {memory(192)});
  return {
      {Op::gelu, a, {x}, {x}, {memory(192, 48)}},
      {Op::relu, a, {x}, {x}, {memory(192)}},
      {Op::squared_relu, a, {x}, {x}, eager({memory(192), memory(192)}, {memory(192)})},
      {Op::tanh, a, {x}, {x}, {memory(192)}},
      {Op::swiglu, a, {x, x}, {x}, {memory(288)}},
      {Op::clamped_swiglu,
       a,
       {x, x},
       {x},
       eager(times(1, memory(288)) + times(6, memory(192)), {memory(288)})},
      {Op::gelu_grad, a, {x, x}, {x}, {memory(288, 1.4 * 48)}},
      {Op::relu_grad, a, {x, x}, {x}, {memory(288)}},
      {Op::squared_relu_grad, a, {x, x}, {x}, eager({memory(288), memory(288)}, {memory(288)})},
      {Op::tanh_grad, a, {x, x}, {x}, {memory(288)}},
      {Op::swiglu_grad, a, {x, x, x}, {x, x}, {memory(480)}},
      {Op::clamped_swiglu_grad,
       a,
       {x, x, x},
       {x, x},
       eager(times(1, memory(480)) + times(8, memory(288)), {memory(480)})},
      {Op::add, a, {x, x}, {x}, {memory(288)}},
      {Op::dropout, a, {x}, {x}, dropped},
      {Op::dropout,
       dropping_wide,
       {x},
       {x},
       by_level({memory(288), memory(432), memory(288)}, {joined(48)}, {})},
      {Op::dropout_grad, a, {x}, {x}, dropped_grad},
      {Op::scale, a, {x}, {x}, {memory(192)}},
      {Op::add_constant, a, {x}, {x}, {memory(192)}},
      {Op::cube, a, {x}, {x}, {memory(192)}},
      {Op::multiply, a, {x, x}, {x}, {memory(288)}},
      {Op::silu, a, {x}, {x}, {memory(192)}},
      {Op::cube_grad, a, {x, x}, {x}, {memory(288)}},
      {Op::silu_grad, a, {x, x}, {x}, {memory(288)}},
  };
}

std::vector<Example> row_examples() {
  const Attributes a = plain();
  const Attributes split = with([](Attributes& to) { to.tensor_degree = 2; });
  const Attributes of_experts = with([](Attributes& to) { to.experts = 4; });
  const TensorType row = half({6}), sum = word({6}), column = word({8, 1});
  const TensorType saved = word({8, 2}), heads = half({8, 6}), statistics = word({2, 8});
  const Kernel convert = memory(96 + 192);  // from bf16 to an fp32 copy, or back
  return {
      {Op::layer_norm, a, {x, row, row}, {x, saved}, {memory(192)}},
      {Op::rms_norm, a, {x, row}, {x, column}, {memory(192)}},
      {Op::head_norm,
       a,
       {heads, half({3})},
       {heads, word({8, 2})},
       eager({memory(192), memory(96), memory(192), memory(192)}, {memory(192)})},
      {Op::norm_stats, a, {x}, {statistics}, {memory(96)}},
      {Op::norm_parts, split, {x, row, word({4, 8})}, {x, saved}, {memory(192)}},
      {Op::layer_norm_grad, a, {x, row, saved, x}, {x, sum, sum}, {memory(288), memory(192)}},
      {Op::layer_norm_grad, a, {x, row, saved, x}, {x}, {memory(288)}},
      {Op::rms_norm_grad, a, {x, row, column, x}, {x, sum}, {memory(288), memory(192)}},
      {Op::head_norm_grad, a, {x, saved, x, half({3})}, {x, word({3})}, {memory(288), memory(192)}},
      {Op::norm_parts_sums,
       split,
       {x, row, saved, x},
       {statistics, sum},
       {memory(192), memory(192)}},
      {Op::norm_parts_sums, split, {x, row, saved, x}, {statistics}, {memory(192)}},
      {Op::norm_parts_grad, split, {x, row, saved, x, statistics}, {x}, {memory(288)}},
      // The kernels convert to fp32, square, and take the means.
      {Op::mean_of_squares, a, {x}, {column}, {convert, memory(384), memory(192)}},
      {Op::mean_of_squares, a, {wide}, {column}, {memory(384), memory(192)}},
      {Op::inverse_root, a, {column}, {column}, {memory(64)}},
      {Op::scale_rows, a, {x, column}, {x}, {memory(384), convert}},
      {Op::scale_rows, a, {wide, column}, {wide}, {memory(384)}},
      {Op::scale_rows, of_experts, {x, column}, {x}, {memory(96 + 32 + 96)}},
      {Op::scale_columns, a, {x, row}, {x}, {memory(96 + 12 + 96)}},
      {Op::mean_of_squares_grad, a, {x, column}, {x}, {memory(384)}},
      {Op::inverse_root_grad, a, {column, column}, {column}, {memory(96)}},
      {Op::row_dots, a, {x, x}, {column}, {memory(576), memory(192)}},
      {Op::scale_columns_grad, a, {x, x}, {sum}, {memory(288), memory(96)}},
      {Op::add_bias, a, {x, row}, {x}, eager({memory(192)}, {})},
      {Op::bias_grad, a, {x}, {sum}, {memory(96 + 24)}},
  };
}

std::vector<Example> product_examples() {
  const Attributes a = plain();
  // Two of the six columns of logits are padding, which only the training compiler has.
  const Attributes padded = with([](Attributes& to) { to.vocabulary = 4; });
  const Attributes apart = with([](Attributes& to) { to.accumulate_separately = true; });
  const Attributes in_out = with([](Attributes& to) { to.weight_in_out = true; });
  const Attributes made_bf16 = with([](Attributes& to) { to.made = Dtype::bf16; });
  const Attributes turned = with([](Attributes& to) {
    to.factors_transposed = true;
    to.made = Dtype::bf16;
  });
  const TensorType weight = half({5, 6}), y = half({8, 5}), sum = word({5, 6});
  const TensorType logits = half({8, 6}), table = half({6, 5}), table_sum = word({6, 5});
  const TensorType one = word({1, 1});
  return {
      // The matmul does 8 * 5 * 6 multiplications and the same number of additions. It moves the 96
      // bytes of x, 60 of the weight and 80 of y.
      {Op::linear, a, {x, weight}, {y}, {product_of(8, 5, 6, 480, 236)}, 480},
      {Op::linear, in_out, {x, half({6, 5})}, {y}, {product_of(8, 5, 6, 480, 236)}, 480},
      {Op::linear, a, {x, weight, half({5})}, {y}, {product_of(8, 5, 6, 480, 246)}, 480},
      {Op::linear,
       padded,
       {y, table},
       {logits},
       eager_and_by_hand({product_of(8, 4, 5, 320, 236)}, {product_of(8, 6, 5, 480, 236)}),
       480},
      {Op::linear,
       made_bf16,
       {eight_bits({8, 6}), eight_bits({5, 6}), one, one},
       {y},
       {quantized(product_of(8, 5, 6, 480, 48 + 30 + 4 + 4 + 80))},
       480},
      {Op::linear_grad_input, a, {y, weight}, {x}, {product_of(8, 6, 5, 480, 236)}},
      {Op::linear_grad_input,
       padded,
       {logits, table},
       {y},
       eager_and_by_hand({product_of(8, 5, 4, 320, 236)}, {product_of(8, 5, 6, 480, 236)})},
      // The fp32 sum is read and written: 96 + 80 + 2 * 120.
      {Op::linear_grad_weight, a, {x, y}, {sum}, {product_of(6, 5, 8, 480, 416)}},
      // A gradient of 60 bytes in bf16 is written. Another kernel reads it and adds it to the sum.
      {Op::linear_grad_weight,
       apart,
       {x, y},
       {sum},
       {product_of(6, 5, 8, 480, 96 + 80 + 60), memory(60 + 2 * 120)}},
      {Op::linear_grad_weight,
       padded,
       {y, logits},
       {table_sum},
       eager_and_by_hand({product_of(5, 4, 8, 320, 416)}, {product_of(5, 6, 8, 480, 416)})},
      {Op::linear_grad_weight,
       turned,
       {eight_bits({6, 8}), eight_bits({5, 8}), one, one},
       {sum},
       {quantized(product_of(6, 5, 8, 480, 48 + 40 + 2 * 120))}},
  };
}

std::vector<Example> embedding_examples() {
  const Attributes a = plain();
  const Attributes shared = with([](Attributes& to) { to.vocabulary_parallel = true; });
  // The image has a class token and four patches of 2 * 2 pixels in three channels.
  const Attributes image = with([](Attributes& to) {
    to.sequence_length = 5;
    to.channels = 3;
    to.patch_size = 2;
    to.made = Dtype::bf16;
  });
  const TensorType table = half({10, 6}), positions = whole({2, 3}), chosen = half({6, 6});
  return {
      {Op::embedding, a, {tokens, table}, {x}, {memory(192)}},
      {Op::embedding,
       shared,
       {tokens, table},
       {x},
       eager_and_by_hand({memory(192), memory(192)}, {memory(192)})},
      {Op::add_position, a, {x, table}, {x}, {memory(192)}},
      {Op::add_row, a, {x, half({2, 6})}, {x}, {memory(192)}},
      {Op::select_positions, a, {x, positions}, {chosen}, {memory(96 + 24 + 72)}},
      {Op::image_patches, image, {whole({2, 48})}, {half({8, 12})}, {memory(384 + 192)}},
      {Op::prepend_row, a, {chosen, half({6})}, {x}, {memory(192)}},
      // For each element of dy (2 bytes), an element of the fp32 table is read and written (8
      // bytes): 48 * (2 + 8).
      {Op::embedding_grad, a, {tokens, x}, {word({10, 6})}, {memory(480)}},
      {Op::embedding_grad, a, {tokens, wide}, {word({10, 6})}, {memory(48 * 12)}},
      {Op::add_position_grad, a, {x}, {word({9, 6})}, {memory(96 + 216)}},
      {Op::add_row_grad, a, {x}, {word({2, 6})}, {memory(96 + 48)}},
      {Op::select_positions_grad, a, {chosen, positions}, {x}, {memory(72 + 24 + 96)}},
      {Op::prepend_row_grad, a, {x}, {chosen, word({6})}, {memory(2 * (72 + 24))}},
  };
}

std::vector<Example> attention_examples() {
  const Attributes a = plain();
  const auto change = [](auto how) { return with(how); };
  const Attributes unmasked = change([](Attributes& to) { to.causal = false; });
  const Attributes packed = change([](Attributes& to) {
    to.documents = true;
    to.document_share = 0.5;
  });
  const Attributes narrow = change([](Attributes& to) { to.value_dim = 2; });
  const auto unfused_with = [&](auto how) {
    Attributes to = plain();
    to.attention = AttentionKernel::unfused;
    how(to);
    return to;
  };
  const Attributes unfused = unfused_with([](Attributes&) {});
  const Attributes dropping = unfused_with([](Attributes& to) { to.dropout = 0.1; });
  const Attributes capped = unfused_with([](Attributes& to) { to.score_cap = 30; });
  const Attributes buckets = unfused_with([](Attributes& to) { to.relative_buckets = 3; });
  const Attributes narrow_unfused = unfused_with([](Attributes& to) { to.value_dim = 2; });
  const Attributes step = change([](Attributes& to) {
    to.context_degree = 3;
    to.ring_step = 1;
  });
  const Attributes gathered = change([](Attributes& to) {
    to.context_degree = 3;
    to.ring_step = -1;
  });
  const Attributes of_pytorch = change([](Attributes& to) {
    to.context_degree = 3;
    to.ring_step = -1;
    to.context_of_pytorch = true;
  });
  const Attributes turned = change([](Attributes& to) { to.rotary_dim = 1; });
  const TensorType kv = half({8, 3}), saved = word({4, 4}), scores = half({4, 4, 4});
  const TensorType table = half({3, 2}), both = half({8, 6});
  const TensorType q_heads = half({4, 4, 3}), k_heads = half({2, 4, 3});
  // There are 2 heads in each of 2 sequences, with matmuls of [4,3] and [3,4], or of [4,4] and
  // [4,3].
  const Kernel q_k = of_heads(4, 4, 3, 384, 4 * (12 + 12 + 16) * 2);
  const Kernel w_v = of_heads(4, 3, 4, 384, 4 * (16 + 12 + 12) * 2);
  const Kernel narrow_w_v = of_heads(4, 2, 4, 256, 4 * (16 + 8 + 8) * 2);
  // There are 64 scores. Sequences of four tokens are too short for the fused softmax, so scores
  // are converted to fp32, scaled, masked, normalized, and converted back.
  const Kernels softmax = {memory(64 * 4)};
  const Kernels long_softmax = {memory(64 * 6), memory(64 * 8), memory(64 * 8), memory(64 * 8),
                                memory(64 * 6)};
  const Kernels softmax_grad = {memory(64 * 6)};
  const Kernels long_softmax_grad = {memory(64 * 6), memory(64 * 8), memory(64 * 8),
                                     memory(64 * 12), memory(64 * 6)};
  const Kernels drop = {memory(64 * 5)}, cap = times(3, memory(64 * 4));
  const Kernels first{q_k}, last{w_v}, first_grad{w_v, q_k}, last_grad{w_v, w_v};
  const Levels dropped = by_level({memory(2 * 128 + 64)}, {joined(64)}, {});
  const Levels dropped_grad = by_level({memory(320)}, {memory(320)}, {memory(256)});
  const Types saved_inputs{x, kv, kv, x, saved, x}, unfused_inputs{x, kv, kv, x, scores, x};
  return {
      {Op::rope, a, {x}, {x}, {memory(192)}},
      {Op::rope_grad, a, {x}, {x}, {memory(192)}},
      {Op::concat_heads, turned, {half({8, 4}), half({8, 1})}, {x}, {memory(192)}},
      {Op::concat_heads_grad, turned, {x}, {half({8, 4}), half({8, 1})}, {memory(2 * (64 + 16))}},
      // 4 heads have 16 scores each, and two matmuls 3 columns each: 4 * 16 * 6 * 2 = 768 FLOPs,
      // half of which the mask skips. 96 + 48 + 48 bytes are read, 96 + 64 written.
      {Op::attention, a, {x, kv, kv}, {x, saved}, {flash(4, 384, 352)}, 768},
      {Op::attention, unmasked, {x, kv, kv}, {x, saved}, {flash(4, 768, 352)}, 768},
      {Op::attention, packed, {x, kv, kv, tokens}, {x, saved}, {flash(4, 192, 384)}, 768},
      {Op::attention,
       narrow,
       {x, kv, half({8, 2})},
       {half({8, 4}), saved},
       {flash(4, 320, 304)},
       640},
      {Op::attention,
       unfused,
       {x, kv, kv},
       {x, scores},
       {first + softmax + last, first + long_softmax + last, first + softmax + last},
       768},
      {Op::attention,
       dropping,
       {x, kv, kv},
       {x, scores},
       {first + softmax + drop + last, first + long_softmax + drop + last, first + softmax + last},
       768},
      {Op::attention,
       capped,
       {x, kv, kv},
       {x, scores},
       {first + cap + softmax + last, first + cap + long_softmax + last, first + softmax + last},
       768},
      {Op::attention,
       narrow_unfused,
       {x, kv, half({8, 2})},
       {half({8, 4}), scores},
       {Kernels{q_k} + softmax + Kernels{narrow_w_v},
        Kernels{q_k} + long_softmax + Kernels{narrow_w_v},
        Kernels{q_k} + softmax + Kernels{narrow_w_v}},
       640},
      // The gradient has five matmuls of 3 columns each: 4 * 16 * 15 * 2 = 1920 FLOPs.
      {Op::attention_grad, a, saved_inputs, {x, kv, kv}, {flash_backward(4, 960, 448 + 192)}},
      {Op::attention_grad,
       unfused,
       unfused_inputs,
       {x, kv, kv},
       {first_grad + softmax_grad + last_grad, first_grad + long_softmax_grad + last_grad,
        first_grad + softmax_grad + last_grad}},
      {Op::attention_grad,
       dropping,
       unfused_inputs,
       {x, kv, kv},
       {first_grad + drop + softmax_grad + last_grad,
        first_grad + drop + long_softmax_grad + last_grad, first_grad + softmax_grad + last_grad}},
      {Op::attention_grad,
       capped,
       unfused_inputs,
       {x, kv, kv},
       {first_grad + softmax_grad + cap + last_grad,
        first_grad + long_softmax_grad + cap + last_grad,
        first_grad + softmax_grad + first + last_grad}},
      {Op::attention_grad,
       buckets,
       {x, kv, kv, x, scores, x, table},
       {x, kv, kv, word({3, 2})},
       {first_grad + softmax_grad + times(1, memory(128)) + last_grad,
        first_grad + long_softmax_grad + times(1, memory(128)) + last_grad,
        first_grad + softmax_grad + times(1, memory(128)) + last_grad}},
      {Op::context_pack, a, {kv, kv}, {both}, {memory(192)}},
      {Op::context_unpack, a, {both}, {kv, kv}, {memory(192)}},
      {Op::context_attention, step, {x, both}, {x, saved}, {flash(4, 384, 352)}, 768},
      // Attention reads the keys of three ranks.
      {Op::context_attention,
       gathered,
       {x, half({24, 6})},
       {x, saved},
       {flash(12, 1152, 544)},
       2304},
      // Each of three ranks makes a block of 48 elements. The first is converted to fp32, the
      // others are added to it, and the sum is rounded.
      {Op::context_attention,
       of_pytorch,
       {x, half({24, 12})},
       {x, saved},
       {flash(12, 1152, 832), memory(48 * 6), memory(48 * 10), memory(48 * 10), memory(48 * 6)},
       2304},
      {Op::context_attention_grad,
       step,
       {x, both, x, saved, x},
       {x, both},
       {flash_backward(4, 960, 448 + 192)}},
      {Op::context_attention_grad,
       of_pytorch,
       {x, half({24, 12}), x, saved, x},
       {x, word({8, 12})},
       {flash_backward(12, 2880, 96 + 576 + 96 + 64 + 96 + 96 + 384), memory(48 * 10),
        memory(96 * 10)}},
      {Op::rotate_half, a, {x}, {x}, {memory(96), memory(192)}},
      {Op::rotate_half_grad, a, {x}, {x}, {memory(96), memory(192)}},
      {Op::times_cosine, a, {x}, {x}, {memory(192)}},
      {Op::times_sine, a, {x}, {x}, {memory(192)}},
      {Op::split_heads, a, {x}, {q_heads}, {memory(192)}},
      {Op::join_heads, a, {q_heads}, {x}, {memory(192)}},
      {Op::scores, a, {q_heads, k_heads}, {scores}, {q_k}, 384},
      {Op::weigh_values, a, {scores, k_heads}, {q_heads}, {w_v}, 384},
      {Op::weigh_transposed, a, {scores, q_heads}, {k_heads}, {w_v}},
      {Op::add_alibi, a, {scores}, {scores}, {memory(256)}},
      {Op::mask_scores, a, {scores}, {scores}, {memory(256)}},
      {Op::softmax, a, {scores}, {scores}, {memory(256)}},
      {Op::softmax_grad, a, {scores, scores}, {scores}, {memory(384)}},
      {Op::drop_probabilities, a, {scores}, {scores}, dropped},
      {Op::drop_probabilities_grad, a, {scores}, {scores}, dropped_grad},
      // The bias is read for one of the two sequences.
      {Op::add_relative_bias, buckets, {scores, table}, {scores}, {memory(2 * 128 + 64)}},
      {Op::relative_bias_grad, buckets, {scores}, {word({3, 2})}, {memory(128 + 24)}},
  };
}

std::vector<Example> loss_examples() {
  const Attributes a = plain();
  const Attributes apart = with([](Attributes& to) { to.loss_by_operations = true; });
  const Attributes split = with([](Attributes& to) { to.tensor_degree = 2; });
  const Attributes stored = with([](Attributes& to) { to.storage = Dtype::bf16; });
  const TensorType loss = word({8}), stats = word({3, 8});
  const TensorType span_logits = half({8, 2}), spans = whole({2, 2}), span = word({4});
  const Kernel convert = memory(96 + 192);
  const Levels forward = eager_and_by_hand({convert, memory(384)}, {memory(96)});
  const Levels backward = eager_and_by_hand({memory(384), convert}, {memory(192)});
  return {
      {Op::cross_entropy, a, {x, tokens}, {loss, loss}, forward},
      {Op::cross_entropy,
       a,
       {wide, tokens},
       {loss, loss},
       eager_and_by_hand({memory(384)}, {memory(192)})},
      // Five kernels move 1, 2, 2, 1 and 2 times the bytes of the fp32 copy.
      {Op::cross_entropy,
       apart,
       {x, tokens},
       {loss, loss},
       by_level({convert, memory(384)},
                {convert, memory(192), memory(384), memory(384), memory(192), memory(384)},
                {memory(96)})},
      {Op::cross_entropy,
       apart,
       {wide, tokens},
       {loss, loss},
       by_level({memory(384)}, {memory(192), memory(384), memory(384), memory(192), memory(384)},
                {memory(192)})},
      {Op::cross_entropy_stats, a, {x, tokens}, {stats}, forward},
      {Op::cross_entropy_combine, split, {word({6, 8})}, {loss, loss}, {memory(192 + 32 + 32)}},
      {Op::cross_entropy_grad, a, {x, loss, tokens}, {x}, backward},
      {Op::cross_entropy_grad,
       a,
       {wide, loss, tokens},
       {wide},
       eager_and_by_hand({memory(384)}, {memory(384)})},
      {Op::span_loss, a, {span_logits, spans}, {span, span}, {memory(32 + 16 + 16 + 16)}},
      {Op::span_loss_grad,
       a,
       {span_logits, span, spans},
       {span_logits},
       {memory(32 + 16 + 16 + 32)}},
      {Op::log_softmax, a, {x}, {wide}, {convert, memory(384)}},
      {Op::log_softmax, a, {wide}, {wide}, {memory(384)}},
      {Op::nll_loss, a, {wide, tokens}, {loss}, {memory(3 * 32)}},
      {Op::log_softmax_grad, stored, {wide, wide}, {x}, {memory(576), convert}},
      {Op::nll_loss_grad, a, {wide, tokens}, {wide}, {memory(192)}},
  };
}

// Returns examples with four experts, of which each token chooses two. Experts have two slots for
// every sequence, so there are 4 * 2 * 2 rows.
std::vector<Example> expert_examples() {
  const auto experts_with = [](auto change) {
    Attributes a = plain();
    a.experts = 4;
    a.experts_per_token = 2;
    a.expert_capacity = 2;
    change(a);
    return a;
  };
  const Attributes a = experts_with([](Attributes&) {});
  const Attributes apart = experts_with([](Attributes& to) { to.accumulate_separately = true; });
  const Attributes one_slot = experts_with([](Attributes& to) { to.expert_capacity = 1; });
  const auto dropless = [&](std::int64_t kept, double imbalance) {
    return experts_with([&](Attributes& to) {
      to.expert_capacity = 0;
      to.expert_rows = kept;
      to.expert_imbalance = imbalance;
    });
  };
  const TensorType logits = half({8, 4}), slots = whole({8, 2}), weights = word({8, 2});
  const TensorType y = half({16, 6}), weight = half({4, 5, 6}), z = half({16, 5});
  const TensorType sum = word({4, 5, 6}), counts = whole({4, 1}), gate = half({8, 1});
  const auto rows = [](std::int64_t count, std::int64_t width) { return half({count, width}); };
  const auto routed = [](int kernels) { return times(kernels, memory(2 * 128)); };
  const Levels routes{routed(5), routed(2), routed(1)};
  return {
      {Op::route, a, {logits}, {weights, slots, word({2})}, routes},
      {Op::route_grad, a, {logits, slots, weights}, {logits}, routes},
      {Op::dispatch, a, {x, slots}, {y}, {memory(2 * 192)}},
      {Op::dispatch_grad, a, {slots, y}, {x}, {memory(96 * 3)}},
      {Op::expert_exchange, a, {y}, {y}, nothing_runs},
      // Four matmuls of [4,6] and [6,5] take 4 * 120 * 2 FLOPs and move 192 + 240 + 160 bytes.
      {Op::expert_linear, a, {y, weight}, {z}, {expert_product_of(4, 5, 6, 960, 592)}, 960},
      // With one slot, eight of the sixteen choices have none.
      {Op::expert_linear,
       one_slot,
       {rows(8, 6), weight},
       {rows(8, 5)},
       {expert_product_of(2, 5, 6, 480, 96 + 240 + 80)},
       480},
      // In a dropless layer, each of four experts has a quarter of the most loaded rank's rows,
      // rounded up: of 16, or of 17 with an imbalance of 1.1. There are at least one and at most
      // all rows.
      {Op::expert_linear,
       dropless(20, 1),
       {rows(20, 6), weight, counts},
       {rows(20, 5)},
       {expert_product_of(4, 5, 6, 960, 240 + 240 + 16 + 200)},
       960},
      {Op::expert_linear,
       dropless(20, 1.1),
       {rows(20, 6), weight, counts},
       {rows(20, 5)},
       {expert_product_of(5, 5, 6, 1200, 240 + 240 + 16 + 200)},
       960},
      {Op::expert_linear,
       dropless(6, 2),
       {rows(6, 6), weight, counts},
       {rows(6, 5)},
       {expert_product_of(2, 5, 6, 480, 72 + 240 + 16 + 60)},
       360},
      {Op::expert_linear,
       dropless(20, 0),
       {rows(20, 6), weight, counts},
       {rows(20, 5)},
       {expert_product_of(1, 5, 6, 240, 240 + 240 + 16 + 200)},
       960},
      {Op::expert_linear_grad_input, a, {z, weight}, {y}, {expert_product_of(4, 6, 5, 960, 592)}},
      {Op::expert_linear_grad_weight,
       a,
       {y, z},
       {sum},
       {expert_product_of(6, 5, 4, 960, 192 + 160 + 2 * 480)}},
      {Op::expert_linear_grad_weight,
       apart,
       {y, z},
       {sum},
       {expert_product_of(6, 5, 4, 960, 192 + 160 + 240), memory(240 + 2 * 480)}},
      {Op::add_expert_bias, a, {z, half({4, 5})}, {z}, {memory(160 + 40 + 160)}},
      {Op::expert_bias_grad, a, {z}, {word({4, 5})}, {memory(160 + 80)}},
      {Op::count_choices, a, {slots}, {twice({4})}, {memory(64 + 2 * 32)}},
      {Op::combine, a, {y, weights, slots}, {x}, {memory(96 * 3)}},
      {Op::combine_grad,
       a,
       {y, weights, slots, x},
       {y, weights},
       {memory(192 + 64 + 64 + 96 + 192 + 64)}},
      {Op::gate_rows, a, {x, gate}, {x}, eager({memory(208), memory(32)}, {memory(208)})},
      {Op::gate_rows_grad,
       a,
       {x, gate, x},
       {x, gate},
       eager({memory(320), memory(288), memory(96), memory(48)}, {memory(320)})},
  };
}

// Returns examples of communication. Collectives are no kernels. Operations that reorder elements
// read and write them.
std::vector<Example> communication_examples() {
  const Attributes tensor = with([](Attributes& to) { to.tensor_degree = 2; });
  const Attributes context = with([](Attributes& to) { to.context_degree = 2; });
  const TensorType share = half({4, 6}), parts = half({16, 3}), of_two = half({16, 6});
  return {
      {Op::tensor_copy, tensor, {x}, {x}, nothing_runs},
      {Op::tensor_reduce, tensor, {x}, {x}, nothing_runs},
      {Op::tensor_maximum, tensor, {word({1})}, {word({1})}, nothing_runs},
      {Op::sequence_gather, tensor, {share}, {x}, nothing_runs},
      {Op::sequence_scatter, tensor, {x}, {share}, nothing_runs},
      {Op::sequence_slice, tensor, {x}, {share}, {memory(96 + 48)}},
      {Op::stats_gather, tensor, {word({3, 8})}, {word({6, 8})}, nothing_runs},
      {Op::context_shift, context, {x}, {x}, nothing_runs},
      {Op::context_gather, context, {x}, {of_two}, nothing_runs},
      {Op::context_scatter, context, {of_two}, {x}, nothing_runs},
      {Op::context_exchange, context, {of_two}, {of_two}, nothing_runs},
      {Op::parts_to_sequence, context, {of_two}, {of_two}, {memory(384)}},
      {Op::sequence_to_parts, context, {of_two}, {of_two}, {memory(384)}},
      {Op::columns_to_parts, tensor, {x}, {parts}, {memory(192)}},
      {Op::parts_to_columns, tensor, {parts}, {x}, {memory(192)}},
  };
}

std::vector<Example> quantized_examples() {
  const auto made = [](bool transposed, bool joins) {
    return with([=](Attributes& to) {
      to.made = Dtype::e4m3;
      to.with_transposed = transposed;
      to.joins_maker = joins;
    });
  };
  const TensorType one = word({1}), scale = word({1, 1});
  const TensorType q = eight_bits({8, 6}), turned = eight_bits({6, 8});
  // 16,384 weights in 4 bits have 256 scales. These take 4 bytes each or, if they are quantized
  // too, 1 byte each and 4 bytes for all.
  const Attributes to_bf16 = with([](Attributes& to) { to.storage = Dtype::bf16; });
  const Shape square{128, 128};
  const Kernel widens = memory(8192 + 256 + 4 + 32768);
  return {
      {Op::widen_weights,
       to_bf16,
       {{square, Dtype::nf4}},
       {half(square)},
       {memory(8192 + 1024 + 32768)}},
      {Op::widen_weights,
       to_bf16,
       {{square, Dtype::nf4_double}},
       {half(square)},
       eager({memory(256 + 1024), memory(2 * 1024), widens}, {widens})},
      {Op::amax, made(false, false), {x}, {one}, {memory(96)}},
      {Op::amax, made(false, true), {x}, {one}, nothing_runs},
      {Op::quantize, made(false, false), {x, one}, {q, scale}, {memory(96 + 48 + 4)}},
      // The kernel that made x writes 52 quantized bytes instead of the 96 of x, or 104 with the
      // transposed copy.
      {Op::quantize, made(false, true), {x, one}, {q, scale}, {joined(0)}},
      {Op::quantize, made(true, true), {x, one}, {q, scale, turned, scale}, {joined(8)}},
      {Op::transpose, plain(), {x}, {half({6, 8})}, {memory(192)}},
  };
}

// Returns examples of a step's operations, with gradients of 48 elements in bf16, states in fp32
// and a norm in fp64.
std::vector<Example> step_examples() {
  const Attributes a = plain();
  const TensorType gradients = half({48}), state = word({48}), norm = twice({1});
  return {
      {Op::zero, a, {}, {x, word({2})}, {memory(96 + 8)}},
      {Op::sum_loss, a, {word({8})}, {norm}, {memory(32 + 8)}},
      {Op::sum_of_squares, a, {gradients}, {norm}, {memory(96 + 8)}},
      {Op::update_loss_scale, a, {norm}, {word({3}), word({1})}, {memory(8 + 12 + 4)}},
      {Op::update_largest, a, {norm, norm}, {word({3, 2}), word({3, 5})}, {memory(2 * (24 + 60))}},
      {Op::lamb_norms,
       a,
       {gradients, state, norm, norm},
       {state, state},
       {memory(96 + 192 + 16 + 384)}},
      {Op::muon_momentum,
       a,
       {gradients, state, norm},
       {state, state},
       {memory(96 + 192 + 8 + 384)}},
      // Gradients are read once for sums of rows and once for sums of columns.
      {Op::adafactor_sums, a, {gradients, norm}, {twice({14})}, {memory(96), memory(96)}},
      {Op::adafactor_norms,
       a,
       {gradients, state, norm, word({14})},
       {word({14}), norm},
       {memory(96 + 192 + 8 + 56 + 56 + 8)}},
      // The kernel moves the counts, the biases and their masters.
      {Op::update_choice_biases, a, {twice({5}), norm}, {half({5}), word({5})}, {memory(3 * 40)}},
  };
}

std::vector<Example> all_examples() {
  std::vector<Example> all;
  for (auto* of_family : {elementwise_examples, row_examples, product_examples, embedding_examples,
                          attention_examples, loss_examples, expert_examples,
                          communication_examples, quantized_examples, step_examples})
    for (Example& each : of_family()) all.push_back(std::move(each));
  return all;
}

std::string text(const Kernels& kernels) {
  std::string result;
  for (const Kernel& each : kernels)
    result += std::to_string(static_cast<int>(each.kind)) + ": " + std::to_string(each.m) + " x " +
              std::to_string(each.n) + " x " + std::to_string(each.k) + " x " +
              std::to_string(each.batch) + ", " + std::to_string(each.flops) + " FLOPs, " +
              std::to_string(each.bytes) + " bytes" + (each.joins_neighbour ? " joined" : "") +
              "\n";
  return result;
}

}  // namespace

TEST_CASE("every operation runs the kernels that were counted by hand", "[ops][work]") {
  for (const Example& each : all_examples())
    for (const CompilerLevel level :
         {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full}) {
      Kernels kernels;
      append_kernels({each.op, each.a, each.in, each.out}, level, kernels);
      INFO(info(each.op).name << " at level " << static_cast<int>(level) << "\nwanted\n"
                              << text(each.kernels.at(level)) << "found\n"
                              << text(kernels));
      CHECK(kernels == each.kernels.at(level));
    }
}

TEST_CASE("every operation makes tensors of the types that its example names", "[ops][work]") {
  for (const Example& each : all_examples()) {
    INFO(info(each.op).name);
    Types made;
    info(each.op).infer(each.a, each.in, made);
    REQUIRE(made.size() <= each.out.size());
    CHECK(made == Types(each.out.begin(), each.out.begin() + std::ssize(made)));
    CHECK(info(each.op).takes.has(each.in.size()));
    CHECK(info(each.op).makes.has(each.out.size()));
  }
}

TEST_CASE("model FLOPs are those of forward products, without the mask's half", "[ops][work]") {
  for (const Example& each : all_examples()) {
    INFO(info(each.op).name);
    CHECK(model_flops(OpCall{each.op, each.a, each.in, each.out}) == each.flops);
  }
}

// Segments are tested in captured_test.cpp, because their work comes from the captured file.
TEST_CASE("every operation but the fused one and segments has an example", "[ops][work]") {
  std::set<Op> seen{Op::fused, Op::segment, Op::segment_grad, Op::segment_loss,
                    Op::segment_loss_grad};
  for (const Example& each : all_examples()) seen.insert(each.op);
  for (const OpInfo& row : op_table()) {
    INFO(row.name);
    CHECK(seen.contains(row.op));
  }
}

TEST_CASE("Megatron-LM's fused softmax takes fours of heads and tokens, 17 to 4096 keys",
          "[ops][work]") {
  struct Case {
    int heads, length;
    bool fused;
  };
  for (const Case& each :
       {Case{2, 20, true}, Case{1, 20, false}, Case{3, 20, false}, Case{4, 20, true},
        Case{2, 16, false}, Case{2, 18, false}, Case{2, 4096, true}, Case{2, 4100, false}}) {
    const std::int64_t rows = std::int64_t{2} * each.length, width = std::int64_t{3} * each.heads;
    const Attributes a = with([&](Attributes& to) {
      to.attention = AttentionKernel::unfused;
      to.sequence_length = each.length;
      to.heads = to.kv_heads = each.heads;
    });
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
      const TensorType tensor{{rows, width}, dtype};
      const TensorType saved{{std::int64_t{2} * each.heads, each.length, each.length}, dtype};
      Kernels kernels;
      append_kernels({Op::attention, a, Types{tensor, tensor, tensor}, Types{tensor, saved}},
                     CompilerLevel::fused, kernels);
      INFO(each.heads << " heads, " << each.length << " tokens");
      // Unfused attention has two matmuls, and one kernel or five for softmax.
      CHECK(kernels.size() == (each.fused || dtype == Dtype::f32 ? 3 : 7));
    }
  }
}

namespace {

const OptimizerWork adam{
    .elements = 100, .weights = Dtype::bf16, .gradients = Dtype::f32, .master = Dtype::f32};

// Returns the bytes that each kernel of an optimizer step moves for one element.
template <class Change>
std::vector<double> optimizer_bytes(CompilerLevel level, Change change) {
  OptimizerWork work = adam;
  change(work);
  Kernels kernels;
  append_optimizer_kernels(work, level, kernels);
  std::vector<double> bytes;
  for (const Kernel& each : kernels) {
    CHECK(each == memory(each.bytes));
    bytes.push_back(each.bytes / static_cast<double>(work.elements));
  }
  return bytes;
}

using Bytes = std::vector<double>;

}  // namespace

TEST_CASE("an optimizer's one kernel moves the bytes that its rule reads and writes",
          "[ops][work]") {
  const auto bytes = [](auto change) {
    const Bytes by_hand = optimizer_bytes(CompilerLevel::fused, change);
    CHECK(by_hand == optimizer_bytes(CompilerLevel::full, change));
    REQUIRE(by_hand.size() == 1);
    return by_hand[0];
  };
  using Work = OptimizerWork;
  // The bytes are 2 * (4 + 4) for two moments, 4 for the gradient, 4 + 4 for the master and 2 for
  // the weight.
  CHECK(bytes([](Work&) {}) == 16 + 4 + 8 + 2);
  CHECK(bytes([](Work& w) { w.gradients = Dtype::bf16; }) == 16 + 2 + 8 + 2);
  CHECK(bytes([](Work& w) { w.moments = 1; }) == 8 + 4 + 8 + 2);
  CHECK(bytes([](Work& w) { w.moment = Dtype::bf16; }) == 8 + 4 + 8 + 2);
  CHECK(bytes([](Work& w) { w.average = true; }) == 16 + 4 + 8 + 2 + 8);
  // Weights that are their own masters are read too.
  CHECK(bytes([](Work& w) { w.master.reset(); }) == 16 + 4 + 2 * 2);
  CHECK(bytes([](Work& w) { w.master.reset(), w.weights = Dtype::f32; }) == 16 + 4 + 8);
  // A master of 16 bits is the remainder of the weight, so the weight is read too.
  CHECK(bytes([](Work& w) { w.master = Dtype::bf16; }) == 16 + 4 + 4 + 2 * 2);
  // LAMB and Adafactor have updated the moments before. Adafactor reads the gradients again.
  CHECK(bytes([](Work& w) { w.moments_are_ready = true; }) == 8 + 8 + 2);
  CHECK(bytes([](Work& w) { w.moments_are_ready = w.reads_gradients = true; }) == 8 + 4 + 8 + 2);
}

TEST_CASE("an eager framework's optimizer moves its states kernel by kernel", "[ops][work]") {
  using Work = OptimizerWork;
  const auto bytes = [](auto change) { return optimizer_bytes(CompilerLevel::none, change); };
  // The kernels are: decay, first moment, two for the second moment, three for its root, update,
  // and the copy to 16 bits.
  CHECK(bytes([](Work&) {}) == Bytes{8, 12, 8, 12, 8, 8, 8, 16, 6});
  CHECK(bytes([](Work& w) { w.gradients = Dtype::bf16; }) == Bytes{8, 10, 8, 10, 8, 8, 8, 16, 6});
  CHECK(bytes([](Work& w) { w.moments = 1; }) == Bytes{8, 12, 12, 12, 6});
  CHECK(bytes([](Work& w) { w.average = true; }) == Bytes{8, 12, 8, 12, 8, 8, 8, 16, 6, 12});
  CHECK(bytes([](Work& w) { w.master.reset(), w.weights = Dtype::f32; }) ==
        Bytes{8, 12, 8, 12, 8, 8, 8, 16});
  // States in other types have one kernel at this level too, and so do optimizers whose moments are
  // updated before.
  CHECK(bytes([](Work& w) { w.master.reset(); }) == Bytes{16 + 4 + 2 * 2});
  CHECK(bytes([](Work& w) { w.moment = Dtype::bf16; }) == Bytes{8 + 4 + 8 + 2});
  CHECK(bytes([](Work& w) { w.moments_are_ready = true; }) == Bytes{8 + 8 + 2});
  const Bytes blocks = bytes([](Work& w) { w.moment = Dtype::block8; });
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0] == Approx(4 * mean_bytes_of(Dtype::block8) + 4 + 8 + 2));
}
