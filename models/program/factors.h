// Decides for which parameters the optimizer adafactor keeps factors: the means of squared
// gradients over rows and over columns, in place of second moments.
#pragma once

#include "models/program/graph/graph.h"

namespace meshwright::program {

// Returns the shape [rows, columns] of the whole matrix that a parameter is, over all ranks and
// without padding (with it, if the published parameter has another number of dimensions). Returns a
// shape of rank 0 if the parameter has no factors: it is not a matrix, or has only one row or
// column.
inline Shape factored_shape(const Parameter& parameter) {
  const Shape& whole = parameter.global_shape.rank == parameter.padded_shape.rank
                           ? parameter.global_shape
                           : parameter.padded_shape;
  if (whole.rank != 2 || whole[0] < 2 || whole[1] < 2) return {};
  return whole;
}

inline std::int64_t factor_count(const Shape& factored) {
  return factored.rank == 0 ? 0 : factored[0] + factored[1];
}

}  // namespace meshwright::program
