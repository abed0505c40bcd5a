// Describes matrix multiplications whose factors have 8 or 4 bits: which elements share a scale,
// and which input is which.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/program/graph/op_call.h"

namespace meshwright::program {

// Returns the number of rows of a matrix. Several matrices in one tensor, such as the weights of
// experts, count as one, one below the other. Scales are laid out by these rows.
constexpr std::int64_t rows_of_scales(const Shape& shape) { return shape.elements() / shape[-1]; }

// The numbers of rows and columns of a block of elements that share one scale.
struct ScaleBlock {
  std::int64_t rows = 1, columns = 1;
};
constexpr ScaleBlock scale_block(const Shape& matrix, const Shape& scales) {
  return {rows_of_scales(matrix) / scales[0], matrix[-1] / scales[1]};
}

inline bool has_quantized_factors(const OpCall& call) {
  return !call.inputs.empty() && is_quantized(call.inputs[0].dtype);
}

// Returns the type of the result of a matrix multiplication with this factor, before it may be
// added to a sum of gradients. Quantized factors do not determine it, so an attribute does.
inline Dtype made_type(const Attributes& attributes, const TensorType& factor) {
  return is_quantized(factor.dtype) ? attributes.made : factor.dtype;
}
inline Dtype made_type(const OpCall& call) { return made_type(call.attributes, call.inputs[0]); }

// Number and size of the matrices that a tensor holds, one below the other.
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

// These functions return the positions of the inputs of linear layers and their gradients: two
// factors, their scales if they are quantized, with 4 bits the largest magnitudes of the tensors
// (from which scales of blocks are derived), then the bias if there is one.
constexpr std::size_t scale_input(std::size_t factor) { return 2 + factor; }
constexpr std::size_t largest_input(std::size_t factor) { return 4 + factor; }
inline std::size_t bias_input(const OpCall& call) {
  if (!has_quantized_factors(call)) return 2;
  return call.inputs[0].dtype == Dtype::e2m1 ? 6 : 4;
}
inline bool has_bias(const OpCall& call) { return call.inputs.size() > bias_input(call); }

}  // namespace meshwright::program
