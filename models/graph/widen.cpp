#include "models/graph/widen.h"

#include <algorithm>

#include "models/graph/experts.h"

namespace meshwright {

namespace {

// Pieces of about this many bytes stay in a second-level cache.
constexpr std::int64_t piece_bytes = 1 << 20;
// Sums over rows are made in groups of so many (exec/backends/cpu/column_sum.h).
constexpr std::int64_t row_group = 64;
// A block of a product costs 14 MiB at most, and its conversion little beside the product.
constexpr std::int64_t longest_m = 1024, longest_n = 512, longest_k = 2048;

enum class Unit : std::uint8_t { row, sequence };

// Bit i of a mask: operand i is cut. What is not listed is widened whole.
struct CutRow {
  Op op;
  Unit unit;
  std::uint32_t inputs, outputs;
};
constexpr CutRow cuts[] = {
    {Op::add_position, Unit::sequence, 0b1, 0b1},
    {Op::add_position_grad, Unit::sequence, 0b1, 0},
    {Op::add_row, Unit::row, 0b1, 0b1},
    {Op::add_row_grad, Unit::row, 0b1, 0},
    {Op::embedding_grad, Unit::row, 0b11, 0},
    {Op::layer_norm, Unit::row, 0b1, 0b11},
    {Op::layer_norm_grad, Unit::row, 0b1101, 0b1},
    {Op::rms_norm, Unit::row, 0b1, 0b11},
    {Op::rms_norm_grad, Unit::row, 0b1101, 0b1},
    {Op::add_bias, Unit::row, 0b1, 0b1},
    {Op::bias_grad, Unit::row, 0b1, 0},
    {Op::rope, Unit::sequence, 0b1, 0b1},
    {Op::rope_grad, Unit::sequence, 0b1, 0b1},
    {Op::attention, Unit::sequence, 0b111, 0b11},
    {Op::attention_grad, Unit::sequence, 0b111111, 0b111},
    {Op::gelu, Unit::row, 0b1, 0b1},
    {Op::gelu_grad, Unit::row, 0b11, 0b1},
    {Op::relu, Unit::row, 0b1, 0b1},
    {Op::relu_grad, Unit::row, 0b11, 0b1},
    {Op::tanh, Unit::row, 0b1, 0b1},
    {Op::tanh_grad, Unit::row, 0b11, 0b1},
    {Op::swiglu, Unit::row, 0b11, 0b1},
    {Op::swiglu_grad, Unit::row, 0b111, 0b11},
    {Op::add, Unit::row, 0b11, 0b1},
    {Op::select_positions_grad, Unit::sequence, 0b11, 0b1},
    {Op::cross_entropy, Unit::row, 0b11, 0b11},
    {Op::cross_entropy_grad, Unit::row, 0b111, 0b1},
    {Op::image_patches, Unit::sequence, 0b1, 0b1},
    {Op::prepend_row_grad, Unit::sequence, 0b1, 0b1},
    {Op::sum_of_squares, Unit::row, 0b1, 0},
    // The framework's operations.
    {Op::scale, Unit::row, 0b1, 0b1},
    {Op::add_constant, Unit::row, 0b1, 0b1},
    {Op::cube, Unit::row, 0b1, 0b1},
    {Op::cube_grad, Unit::row, 0b11, 0b1},
    {Op::multiply, Unit::row, 0b11, 0b1},
    {Op::silu, Unit::row, 0b1, 0b1},
    {Op::silu_grad, Unit::row, 0b11, 0b1},
    {Op::mean_of_squares, Unit::row, 0b1, 0b1},
    {Op::mean_of_squares_grad, Unit::row, 0b11, 0b1},
    {Op::inverse_root, Unit::row, 0b1, 0b1},
    {Op::inverse_root_grad, Unit::row, 0b11, 0b1},
    {Op::scale_rows, Unit::row, 0b11, 0b1},
    {Op::row_dots, Unit::row, 0b11, 0b1},
    {Op::scale_columns, Unit::row, 0b1, 0b1},
    {Op::scale_columns_grad, Unit::row, 0b11, 0},
    {Op::rotate_half, Unit::row, 0b1, 0b1},
    {Op::rotate_half_grad, Unit::row, 0b1, 0b1},
    {Op::times_cosine, Unit::sequence, 0b1, 0b1},
    {Op::times_sine, Unit::sequence, 0b1, 0b1},
    {Op::scores, Unit::sequence, 0b11, 0b1},
    {Op::add_alibi, Unit::sequence, 0b1, 0b1},
    {Op::mask_scores, Unit::row, 0b1, 0b1},
    {Op::softmax, Unit::row, 0b1, 0b1},
    {Op::softmax_grad, Unit::row, 0b11, 0b1},
    {Op::drop_probabilities, Unit::sequence, 0b1, 0b1},
    {Op::drop_probabilities_grad, Unit::sequence, 0b1, 0b1},
    {Op::weigh_values, Unit::sequence, 0b11, 0b1},
    {Op::weigh_transposed, Unit::sequence, 0b11, 0b1},
    {Op::log_softmax, Unit::row, 0b1, 0b1},
    {Op::log_softmax_grad, Unit::row, 0b11, 0b1},
    {Op::nll_loss, Unit::row, 0b11, 0b1},
    {Op::nll_loss_grad, Unit::row, 0b11, 0b1},
    // relative positions
    {Op::add_relative_bias, Unit::sequence, 0b1, 0b1},
    {Op::relative_bias_grad, Unit::sequence, 0b1, 0},
};

template <typename Visit>
void for_each_operand(const OpCall& call, const Pieces& pieces, const Visit& visit) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    visit(call.inputs[i], (pieces.inputs >> i & 1U) != 0);
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    visit(call.outputs[i], (pieces.outputs >> i & 1U) != 0);
}

// Every cut operand has a whole number of rows per unit.
bool divides(const OpCall& call, const Pieces& pieces) {
  bool all = true;
  for_each_operand(call, pieces, [&](const TensorType& type, bool cut) {
    all = all && (!cut || type.shape[0] % pieces.units == 0);
  });
  return all;
}

std::int64_t product_bytes(const OpCall& call) {
  const LinearProduct product = product_of(call);
  const ProductBlocks blocks = blocks_of(product);
  std::int64_t bytes = 0;
  if (is_16_bit(call.inputs[product.a].dtype)) bytes += widened_bytes_of(blocks.m * blocks.k);
  if (is_16_bit(call.inputs[product.b].dtype)) bytes += widened_bytes_of(blocks.k * blocks.n);
  if (is_16_bit(call.outputs[0].dtype)) bytes += widened_bytes_of(blocks.m * blocks.n);
  if (call.inputs.size() > 2) bytes += widened_bytes_of(blocks.n);  // the bias
  return bytes;
}

OpCall one_group(const ExpertProduct& product, const OpCall& call) {
  return {product.op, call.attributes, product.inputs, {&product.output, 1}};
}

// Elements of a product's operands that are converted: a block of b once for each block of rows,
// one of a once for all columns where k is one block.
double converted_by_product(const OpCall& call) {
  const LinearProduct p = product_of(call);
  const auto blocks = [](std::int64_t size, std::int64_t longest) {
    return static_cast<double>((size + longest - 1) / longest);
  };
  const auto elements = [](const TensorType& type) {
    return is_16_bit(type.dtype) ? static_cast<double>(type.shape.elements()) : 0.0;
  };
  const double a_times = p.k <= longest_k ? 1 : blocks(p.n, longest_n);
  return elements(call.inputs[p.a]) * a_times +
         elements(call.inputs[p.b]) * blocks(p.m, longest_m) +
         elements(call.outputs[0]) * (p.adds ? 2 : 1);
}

}  // namespace

double conversion_bytes(const OpCall& call) {
  if (widened_bytes(call) == 0) return 0;
  if (is_expert_product(call.op)) {
    const ExpertProduct product = expert_product_of(call);
    return static_cast<double>(product.groups) * conversion_bytes(one_group(product, call));
  }
  double elements = 0;
  if (is_product(call.op))
    elements = converted_by_product(call);
  else
    for_each_operand(call, {}, [&](const TensorType& type, bool) {
      if (is_16_bit(type.dtype)) elements += static_cast<double>(type.shape.elements());
    });
  return 6 * elements;
}

bool has_16_bit(const OpCall& call) {
  const auto narrow = [](const TensorType& type) { return is_16_bit(type.dtype); };
  return std::any_of(call.inputs.begin(), call.inputs.end(), narrow) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), narrow);
}

bool is_product(Op op) {
  return op == Op::linear || op == Op::linear_grad_input || op == Op::linear_grad_weight;
}

// y = x W^T, or x W when the weight is stored [in, out]; dx = dy W; W += dy^T x, or x^T dy.
LinearProduct product_of(const OpCall& call) {
  const bool in_out = call.attributes.weight_in_out, adds = call.attributes.adds;
  const Shape &first = call.inputs[0].shape, &second = call.inputs[1].shape;
  if (call.op == Op::linear)
    return {first[0], call.outputs[0].shape[1], first[1], 0, 1, false, !in_out, adds};
  if (call.op == Op::linear_grad_input)
    return {first[0], call.outputs[0].shape[1], first[1], 0, 1, false, in_out, adds};
  if (in_out) return {first[1], second[1], first[0], 0, 1, true, false, true};
  return {second[1], first[1], first[0], 1, 0, true, false, true};
}

ProductBlocks blocks_of(const LinearProduct& product) {
  return {std::min(product.m, longest_m), std::min(product.n, longest_n),
          std::min(product.k, longest_k)};
}

Pieces pieces_of(const OpCall& call) {
  Pieces pieces;
  for (const CutRow& row : cuts) {
    if (row.op != call.op) continue;
    const bool by_sequence = row.unit == Unit::sequence;
    // A share of the rows does not begin with a sequence.
    const bool counts_positions = call.op == Op::add_position || call.op == Op::add_position_grad;
    if (counts_positions && call.attributes.sequence_parallel) return {};
    pieces = {row.inputs, row.outputs,
              by_sequence ? call.attributes.micro_batch : call.inputs[0].shape[0], 1, by_sequence};
    if (pieces.units < 1 || !divides(call, pieces)) return {};
  }
  std::int64_t of_unit = 0;
  for_each_operand(call, pieces, [&](const TensorType& type, bool cut) {
    if (cut && is_16_bit(type.dtype)) of_unit += type.shape.elements() / pieces.units * 4;
  });
  pieces.per_piece = piece_bytes / std::max<std::int64_t>(of_unit, 1);
  if (!pieces.sequences && pieces.per_piece > row_group)
    pieces.per_piece = pieces.per_piece / row_group * row_group;
  pieces.per_piece = std::clamp<std::int64_t>(pieces.per_piece, 1, pieces.units);
  return pieces;
}

bool only_moves(Op op) {
  return op == Op::embedding || op == Op::select_positions || op == Op::sequence_slice ||
         op == Op::prepend_row || op == Op::dispatch || op == Op::zero || op == Op::split_heads ||
         op == Op::join_heads;
}

std::int64_t widened_bytes_of(std::int64_t elements) {
  return (elements * 4 + widened_alignment - 1) / widened_alignment * widened_alignment;
}

std::int64_t widened_bytes(const OpCall& call) {
  const bool by_optimizer = call.op == Op::lamb_norms || call.op == Op::update_loss_scale;
  if (only_moves(call.op) || by_optimizer || !has_16_bit(call)) return 0;
  if (is_product(call.op)) return product_bytes(call);
  if (is_expert_product(call.op)) {
    const ExpertProduct product = expert_product_of(call);
    return product_bytes(one_group(product, call));
  }
  const Pieces pieces = pieces_of(call);
  std::int64_t bytes = 0;
  for_each_operand(call, pieces, [&](const TensorType& type, bool cut) {
    if (!is_16_bit(type.dtype)) return;
    const std::int64_t elements = type.shape.elements();
    bytes += widened_bytes_of(cut ? elements / pieces.units * pieces.per_piece : elements);
  });
  return bytes;
}

}  // namespace meshwright
