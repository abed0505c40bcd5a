// Products whose factors have 8 or 4 bits, and their scales: which elements share a scale, and
// which operand is which.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/program/graph/op_call.h"

namespace meshwright {

// Returns the rows of a matrix as its scales see it: experts' weights are one below the other.
constexpr std::int64_t rows_of_scales(const Shape& shape) { return shape.elements() / shape[-1]; }

// The rows and columns of a block that has one scale.
struct ScaleBlock {
  std::int64_t rows = 1, columns = 1;
};
constexpr ScaleBlock scale_block(const Shape& matrix, const Shape& scales) {
  return {rows_of_scales(matrix) / scales[0], matrix[-1] / scales[1]};
}

inline bool has_quantized_factors(const OpCall& call) {
  return !call.inputs.empty() && is_quantized(call.inputs[0].dtype);
}

// Returns the type that a product of these factors makes if it is not a sum. Quantized factors do
// not determine it, so an attribute does.
inline Dtype made_type(const Attributes& attributes, const TensorType& factor) {
  return is_quantized(factor.dtype) ? attributes.made : factor.dtype;
}
inline Dtype made_type(const OpCall& call) { return made_type(call.attributes, call.inputs[0]); }

// Matrices of one size, one below the other in memory.
struct Matrices {
  std::int64_t count = 1, rows = 0, columns = 0;
};
inline Matrices matrices_of(const Attributes& attributes, const Shape& shape) {
  const std::int64_t count = shape.rank == 3 ? shape[0] : attributes.matrices;
  return {count, rows_of_scales(shape) / count, shape[-1]};
}
inline Shape transposed(const Attributes& attributes, const Shape& shape) {
  const Matrices each = matrices_of(attributes, shape);
  if (shape.rank == 3) return {each.count, each.columns, each.rows};
  return {each.count * each.columns, each.rows};
}

// Return the positions of inputs of linear layers and their gradients. The factors' scales come
// before the bias. With 4 bits, the largest magnitudes of the tensors, from which block scales are
// derived, come in between.
constexpr std::size_t scale_input(std::size_t factor) { return 2 + factor; }
constexpr std::size_t largest_input(std::size_t factor) { return 4 + factor; }
inline std::size_t bias_input(const OpCall& call) {
  if (!has_quantized_factors(call)) return 2;
  return call.inputs[0].dtype == Dtype::e2m1 ? 6 : 4;
}
inline bool has_bias(const OpCall& call) { return call.inputs.size() > bias_input(call); }

}  // namespace meshwright
