// Matrices that ranks of a tensor group share, for the tests of all backends.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "exec/optimizer/optimizer.h"

namespace meshwright::tests {

inline std::vector<float> some_numbers(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = float(std::sin(double(i * i % 977)) + 0.1 * std::cos(double(i)));
  return numbers;
}

inline std::int64_t scratch_of(const WholeMatrix& matrix) {
  const std::int64_t side = std::min(matrix.rows, matrix.columns);
  return 2 * matrix.rows * matrix.columns + 2 * side * side;
}

// Returns matrices that are split by rows and by columns, with and without segments.
inline std::vector<WholeMatrix> cut_matrices(std::int64_t rows, std::int64_t columns) {
  return {{1, rows, columns, 0, {rows}, 2},
          {1, rows, columns, 1, {columns}, 4},
          {1, rows, columns, 1, {columns / 2, columns / 4, columns / 4}, 2},
          {1, rows, columns, 0, {rows / 3, 2 * rows / 3}, 2}};
}

// Returns the whole matrix in the parts that its ranks hold, `distance` elements apart. It is split
// by the segments, element by element.
inline std::vector<float> in_parts(const WholeMatrix& cut, const std::vector<float>& whole,
                                   std::int64_t distance) {
  std::vector<float> parts(static_cast<std::size_t>(distance * cut.parts));
  std::vector<std::int64_t> next(static_cast<std::size_t>(cut.parts));
  const auto part_of = [&](std::int64_t along) {
    std::int64_t begin = 0;
    for (const std::int64_t segment : cut.segments) {
      if (along < begin + segment) return (along - begin) / (segment / cut.parts);
      begin += segment;
    }
    return std::int64_t{0};
  };
  for (std::int64_t row = 0; row < cut.rows; ++row)
    for (std::int64_t column = 0; column < cut.columns; ++column) {
      const std::int64_t part = part_of(cut.cut_dim == 0 ? row : column);
      parts[static_cast<std::size_t>(part * distance + next[static_cast<std::size_t>(part)]++)] =
          whole[static_cast<std::size_t>(row * cut.columns + column)];
    }
  return parts;
}

}  // namespace meshwright::tests
