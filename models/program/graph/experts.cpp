#include "models/program/graph/experts.h"

#include <algorithm>
#include <cmath>

#include "models/core/error.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/quantized.h"

namespace meshwright::program {

namespace {

// Returns the type of one group of rows if `type` is a matrix of all groups, or of one matrix if it
// holds one per expert. If `most_rows` > 0 (dropless), a group may have any number of rows up to
// it, and the returned type has `most_rows` rows.
TensorType one_of(const TensorType& type, std::int64_t groups, std::int64_t most_rows) {
  const Shape& shape = type.shape;
  if (most_rows > 0 && shape.rank == 2) return {Shape{most_rows, shape[1]}, type.dtype};
  return {shape.rank == 3 ? Shape{shape[1], shape[2]} : Shape{shape[0] / groups, shape[1]},
          type.dtype};
}

Op op_of_group(Op op) {
  if (op == Op::expert_linear) return Op::linear;
  return op == Op::expert_linear_grad_input ? Op::linear_grad_input : Op::linear_grad_weight;
}

// Returns whether the input belongs to the weight (its values, scales or largest magnitude), of
// which there is one for each expert and not for each group of rows. Weight gradients have no such
// input.
bool is_of_expert(Op op, std::size_t input) {
  return op != Op::linear_grad_weight && input % 2 == 1;
}

}  // namespace

int expert_capacity(double factor, int sequence_length, int experts_per_token, int experts) {
  constexpr double rounding = 1e-9;  // 1.2 * 10 must give 12 in spite of rounding errors
  const double share = factor * sequence_length * experts_per_token / experts;
  return static_cast<int>(std::clamp(std::ceil(share - rounding), 1.0, double(sequence_length)));
}

std::int64_t dropless_rows(double factor, std::int64_t choices, int parts) {
  if (parts == 1 || factor == 0) return choices;
  constexpr double rounding = 1e-9;
  const double rows = std::ceil(factor * static_cast<double>(choices) / parts - rounding);
  return static_cast<std::int64_t>(std::clamp(rows, 1.0, static_cast<double>(choices)));
}

ExpertRows::ExpertRows(const Attributes& a, const std::int32_t* counts) {
  const std::size_t experts = a.experts;
  const std::size_t of_part = experts / static_cast<std::size_t>(a.expert_parts);
  std::int64_t next = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    if (e % of_part == 0) next = static_cast<std::int64_t>(e / of_part) * a.expert_rows;
    begin[e] = next;
    count[e] = counts[e];
    next += count[e];
  }
}

int ExpertRows::expert_of(const Attributes& a, std::int32_t slot) const {
  if (slot < 0) return -1 - slot;
  const int of_part = a.experts / a.expert_parts;
  int expert = static_cast<int>(slot / a.expert_rows) * of_part;
  while (begin[expert] + count[expert] <= slot) ++expert;
  return expert;
}

bool ranks_by_logits(const OpCall& route) {
  return route.inputs.size() == 1 && !route.attributes.sigmoid_scores &&
         route.attributes.expert_groups == 1;
}

bool is_expert_product(Op op) { return info(op).widening.how == WidenRule::How::expert_product; }

ExpertProduct expert_product_of(const OpCall& call) {
  const TensorType& matrices =
      call.op == Op::expert_linear_grad_weight ? call.outputs[0] : call.inputs[1];
  MESHWRIGHT_CHECK(matrices.shape.rank == 3, "the matrices of experts are one tensor");
  ExpertProduct product;
  product.op = op_of_group(call.op);
  product.groups = call.attributes.experts;
  product.experts = matrices.shape[0];
  const std::int64_t most_rows = call.attributes.expert_rows;
  const std::size_t factors = is_dropless(call.attributes) ? 2 : call.inputs.size();
  for (std::size_t i = 0; i < factors; ++i) {
    const TensorType& type = call.inputs[i];
    const bool of_all = i >= scale_input(0) && type.shape.elements() == 1;
    const std::int64_t parts = is_of_expert(product.op, i) ? product.experts : product.groups;
    product.all_inputs[product.input_count++] = of_all ? type : one_of(type, parts, most_rows);
  }
  product.output = one_of(call.outputs[0], product.groups, most_rows);
  return product;
}

std::int64_t ExpertProduct::begin_of(std::size_t input, std::int64_t group) const {
  const bool of_all = input >= scale_input(0) && all_inputs[input].shape.elements() == 1;
  if (of_all) return 0;
  return (is_of_expert(op, input) ? group % experts : group) * all_inputs[input].bytes();
}

std::vector<PublishedTensor> published_tensors(const std::string& name, const Shape& shape) {
  const std::size_t star = name.find('*');
  if (star == std::string::npos) return {{name, shape, 0}};
  Shape one;
  for (int dim = 1; dim < shape.rank; ++dim) one.dims[one.rank++] = shape[dim];
  std::vector<PublishedTensor> all;
  for (std::int64_t i = 0; i < shape[0]; ++i)
    all.push_back({name.substr(0, star) + std::to_string(i) + name.substr(star + 1), one,
                   i * one.elements()});
  return all;
}

}  // namespace meshwright::program
