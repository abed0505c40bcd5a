#include "models/graph/experts.h"

#include <algorithm>
#include <cmath>

#include "models/core/error.h"
#include "models/graph/op_table.h"

namespace meshwright {

namespace {

// Of one group of rows, or one matrix.
TensorType one_of(const TensorType& type, std::int64_t groups) {
  const Shape& shape = type.shape;
  return {shape.rank == 3 ? Shape{shape[1], shape[2]} : Shape{shape[0] / groups, shape[1]},
          type.dtype};
}

Op op_of_group(Op op) {
  if (op == Op::expert_linear) return Op::linear;
  return op == Op::expert_linear_grad_input ? Op::linear_grad_input : Op::linear_grad_weight;
}

}  // namespace

int expert_capacity(double factor, int sequence_length, int experts_per_token, int experts) {
  constexpr double rounding = 1e-9;  // 1.2 * 10 is 12
  const double share = factor * sequence_length * experts_per_token / experts;
  return static_cast<int>(std::clamp(std::ceil(share - rounding), 1.0, double(sequence_length)));
}

bool is_expert_product(Op op) { return info(op).widening.how == WidenRule::How::expert_product; }

ExpertProduct expert_product_of(const OpCall& call) {
  const TensorType& matrices =
      call.op == Op::expert_linear_grad_weight ? call.outputs[0] : call.inputs[1];
  MESHWRIGHT_CHECK(matrices.shape.rank == 3, "the matrices of experts are one tensor");
  ExpertProduct product{op_of_group(call.op), call.attributes.experts, matrices.shape[0], {}, {}};
  for (std::size_t i = 0; i < 2; ++i) product.inputs[i] = one_of(call.inputs[i], product.groups);
  product.output = one_of(call.outputs[0], product.groups);
  return product;
}

std::vector<PublishedTensor> published_tensors(const std::string& name, const Shape& shape) {
  const std::size_t star = name.find('*');
  if (star == std::string::npos) return {{name, shape, 0}};
  Shape one;
  for (int dim = 1; dim < shape.rank; ++dim)
    one.dims[static_cast<std::size_t>(one.rank++)] = shape[dim];
  std::vector<PublishedTensor> all;
  for (std::int64_t i = 0; i < shape[0]; ++i)
    all.push_back({name.substr(0, star) + std::to_string(i) + name.substr(star + 1), one,
                   i * one.elements()});
  return all;
}

}  // namespace meshwright
