#include "models/program/graph/widen.h"

#include <algorithm>

#include "models/core/round_up.h"
#include "models/program/graph/experts.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/quantized.h"

namespace meshwright::program {

namespace {

using How = WidenRule::How;

// The approximate bytes of a piece in fp32, so that it stays in a second-level cache.
constexpr std::int64_t piece_bytes = 1 << 20;
// The number of rows that sums over rows add up at once (exec/backends/cpu/column_sum.h). Longer
// pieces have a multiple of this number of rows.
constexpr std::int64_t row_group = 64;
// The largest sizes of a block of a matmul. Its fp32 copies take at most 14 MiB, and converting
// them takes little time compared with the matmul.
constexpr std::int64_t longest_m = 1024, longest_n = 512, longest_k = 2048;

bool is_narrow(const TensorType& type) { return is_16_bit(type.dtype) || is_quantized(type.dtype); }

template <typename Visit>
void for_each_operand(const OpCall& call, const Pieces& pieces, const Visit& visit) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    visit(call.inputs[i], (pieces.inputs >> i & 1U) != 0);
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    visit(call.outputs[i], (pieces.outputs >> i & 1U) != 0);
}

// Returns whether every cut operand has a whole number of rows per unit.
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
  if (is_narrow(call.inputs[product.a])) bytes += widened_bytes_of(blocks.m * blocks.k);
  if (is_narrow(call.inputs[product.b])) bytes += widened_bytes_of(blocks.k * blocks.n);
  if (is_narrow(call.outputs[0])) bytes += widened_bytes_of(blocks.m * blocks.n);
  if (has_bias(call)) bytes += widened_bytes_of(blocks.n);  // the bias
  return bytes;
}

OpCall one_group(const ExpertProduct& product, const OpCall& call) {
  return {product.op, call.attributes, product.inputs(), {&product.output, 1}};
}

// Returns how many elements of a matmul's operands are converted. Factor b is converted once for
// each block of rows. Factor a is converted once if k fits into one block, and otherwise once for
// each block of columns. The output is converted once, or twice if the result is added to it.
double converted_by_product(const OpCall& call) {
  const LinearProduct p = product_of(call);
  const auto blocks = [](std::int64_t size, std::int64_t longest) {
    return static_cast<double>((size + longest - 1) / longest);
  };
  const auto elements = [](const TensorType& type) {
    return is_narrow(type) ? static_cast<double>(type.shape.elements()) : 0.0;
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
    ExpertProduct product = expert_product_of(call);
    if (is_dropless(call.attributes)) {  // groups of equal use
      const std::int64_t rows = std::max<std::int64_t>(
          1, call.attributes.expert_parts * call.attributes.expert_rows / product.groups);
      for (TensorType& type : product.all_inputs)
        if (type.shape[0] == call.attributes.expert_rows) type.shape[0] = rows;
      if (call.outputs[0].shape.rank == 2) product.output.shape[0] = rows;
    }
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
  return std::ranges::any_of(call.inputs, narrow) || std::ranges::any_of(call.outputs, narrow);
}

bool is_product(Op op) { return info(op).widening.how == How::product; }

// Returns the sizes and factors of a linear layer, y = x W^T (x W if the weight is stored [in,
// out]), or of its gradients: dx = dy W (or dy W^T), and dW += dy^T x (or x^T dy). If the call
// overwrites the weight gradient, nothing is added.
LinearProduct product_of(const OpCall& call) {
  const bool in_out = call.attributes.weight_in_out, adds = call.attributes.adds;
  const bool sums = !call.overwrites_output(0);
  const Shape &first = call.inputs[0].shape, &second = call.inputs[1].shape;
  if (call.op == Op::linear)
    return {first[0], call.outputs[0].shape[1], first[1], 0, 1, false, !in_out, adds};
  if (call.op == Op::linear_grad_input)
    return {first[0], call.outputs[0].shape[1], first[1], 0, 1, false, in_out, adds};
  if (call.attributes.factors_transposed)
    return in_out ? LinearProduct{first[0], second[0], first[1], 0, 1, false, true, sums}
                  : LinearProduct{second[0], first[0], first[1], 1, 0, false, true, sums};
  if (in_out) return {first[1], second[1], first[0], 0, 1, true, false, sums};
  return {second[1], first[1], first[0], 1, 0, true, false, sums};
}

ProductBlocks blocks_of(const LinearProduct& product) {
  return {std::min(product.m, longest_m), std::min(product.n, longest_n),
          std::min(product.k, longest_k)};
}

Pieces pieces_of(const OpCall& call) {
  const WidenRule& rule = info(call.op).widening;
  Pieces pieces;
  if (rule.how == How::rows || rule.how == How::sequences) {
    // If positions matter, a rank's share of the rows is not cut, because it may not begin with a
    // sequence.
    if (rule.counts_positions && call.attributes.sequence_parallel) return {};
    const bool packed = call.attributes.documents,
               by_sequence = rule.how == How::sequences || packed;
    pieces = {rule.inputs, rule.outputs,
              by_sequence ? call.attributes.micro_batch : call.inputs[0].shape[0], 1, by_sequence};
    if (packed) pieces.inputs |= 1U << (call.inputs.size() - 1);
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

bool only_moves(Op op) { return info(op).widening.how == How::moves; }

std::int64_t widened_bytes_of(std::int64_t elements) {
  return round_up(elements * 4, widened_alignment);
}

std::int64_t widened_bytes(const OpCall& call) {
  const How how = info(call.op).widening.how;
  if (how == How::moves || how == How::by_optimizer) return 0;
  if (!has_16_bit(call) && !has_quantized_factors(call)) return 0;
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

}  // namespace meshwright::program
