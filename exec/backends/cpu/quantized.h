// Functions shared by the kernels that round to 8 and to 4 bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "exec/backends/cpu/kernels.h"
#include "models/program/graph/quantized.h"

namespace meshwright::exec::cpu {

// Returns the bits of the largest magnitude in x[0, count), as fp32. Magnitudes compare as their
// bits do, and NaN is above all others.
template <typename T>
std::uint32_t largest_bits(const T* x, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i)
    largest =
        std::max(largest, std::bit_cast<std::uint32_t>(static_cast<float>(x[i])) & 0x7FFFFFFFU);
  return largest;
}

// Matrices of a tensor, or their transposes. The steps between elements, rows and matrices say how
// they are stored.
template <typename T>
struct MatrixSource {
  const T* data;
  std::int64_t row_step, column_step;
  std::int64_t rows, matrix_step;  // rows of a matrix; from one matrix to the next
  void copy_row(std::int64_t r, std::int64_t columns, float* to) const {
    const T* from = data + r / rows * matrix_step + r % rows * row_step;
    for (std::int64_t c = 0; c < columns; ++c) to[c] = static_cast<float>(from[c * column_step]);
  }
};
template <typename T>
MatrixSource<T> as_it_lies(const KernelCall& k) {
  const Matrices each = matrices_of(k.attributes(), k.in_shape(0));
  return {k.in<T>(0), each.columns, 1, each.rows, each.rows * each.columns};
}
template <typename T>
MatrixSource<T> transposed_source(const KernelCall& k) {
  const Matrices each = matrices_of(k.attributes(), k.in_shape(0));
  return {k.in<T>(0), 1, each.columns, each.columns, each.rows * each.columns};
}

// quantize_to_4_bits() rounds to e2m1, as exec/core/four_bits.h specifies. largest_transformed()
// returns the largest magnitude of the transposed matrices after their Hadamard transform, which is
// the amax of their rounding.
template <typename T>
void quantize_to_4_bits(const KernelCall& k);
template <typename T>
float largest_transformed(const KernelCall& k);

}  // namespace meshwright::exec::cpu
