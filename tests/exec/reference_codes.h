// Conversions of one number at a time by the definition of the formats, which those of exec/core
// are compared with.
#pragma once

#include <cmath>
#include <cstdint>

#include "exec/core/block_codes.h"
#include "exec/core/eight_bits.h"
#include "models/core/dtype.h"

namespace meshwright::tests {

inline std::uint8_t reference_8_bits(float x, Dtype dtype) {
  const std::uint32_t largest = dtype == Dtype::e5m2 ? 0x7bU : 0x7eU;  // above: infinity, NaN
  const std::uint32_t sign = std::signbit(x) ? 0x80U : 0U;
  if (std::isnan(x)) return static_cast<std::uint8_t>(sign | 0x7fU);
  const double size = std::fabs(static_cast<double>(x));
  if (size >= static_cast<double>(largest_of(dtype)))
    return static_cast<std::uint8_t>(sign | largest);
  // Finds the nearest of the magnitudes, which grow with their bits. If two are equally near, the
  // one with even bits is taken.
  std::uint32_t nearest = 0;
  for (std::uint32_t bits = 0; bits <= largest; ++bits) {
    const auto distance = [&](std::uint32_t of) {
      return std::fabs(size - reference_value(static_cast<std::uint8_t>(of), dtype));
    };
    if (distance(bits) < distance(nearest) ||
        (distance(bits) == distance(nearest) && bits % 2 == 0))
      nearest = bits;
  }
  return static_cast<std::uint8_t>(sign | nearest);
}

// Returns the code of a number between -1 and 1 by looking at all codes. Of two equally near
// magnitudes it takes the smaller.
inline std::uint8_t reference_code(float x, Dtype dtype) {
  const bool is_signed = dtype == Dtype::block8;
  const int bits = is_signed ? 7 : 8;
  const double magnitude = std::abs(static_cast<double>(x));
  std::uint32_t nearest = !is_signed && x > 0 ? 1 : 0;
  for (std::uint32_t code = nearest; code < std::uint32_t{1} << bits; ++code)
    if (std::abs(magnitude_of_code(code, bits) - magnitude) <
        std::abs(magnitude_of_code(nearest, bits) - magnitude))
      nearest = code;
  return static_cast<std::uint8_t>(nearest + (is_signed && x < 0 && nearest > 0 ? 128 : 0));
}

}  // namespace meshwright::tests
