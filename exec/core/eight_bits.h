// Converts numbers of 8 bits (e4m3, e5m2). The conversion to fp32 is exact. The conversion from
// fp32 rounds to nearest (ties to even). Numbers that are too large become the largest number with
// their sign, and NaN stays NaN.
#pragma once

#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright::exec {

// Convert rows of numbers. The first function writes to[i] = from[i] * scale, the second one writes
// to[i] = from[i] * factor, rounded to 8 bits.
void widen_8_bits(const std::uint8_t* from, Dtype dtype, std::int64_t count, float scale,
                  float* to);
void round_to_8_bits(const float* from, Dtype dtype, std::int64_t count, float factor,
                     std::uint8_t* to);

// Returns the factor that multiplies numbers before they are rounded, given their largest
// magnitude. The factor makes that the format's largest number. With `power`, the factor is the
// largest power of two that makes it no larger. It is 1 if all numbers are 0, and at most the
// largest finite number. If NaN or infinity is among the numbers, all of them are NaN once they are
// divided by the factor again.
float factor_to_8_bits(float largest, Dtype dtype, bool power);

// Returns the factor to use while no largest magnitude is known. It is the power of two that brings
// numbers of magnitude `expected` into [1, 2).
float first_factor(double expected);

// Returns the number with these bits by the definition of the formats.
float reference_value(std::uint8_t bits, Dtype dtype);

}  // namespace meshwright::exec
