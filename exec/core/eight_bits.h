// Numbers of 8 bits: exact to fp32, to nearest (ties to even) from it. What is too large becomes
// the largest number, NaN stays NaN.
#pragma once

#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright {

// Rows of numbers: to[i] = from[i] * scale; to[i] = from[i] * factor, rounded.
void widen_8_bits(const std::uint8_t* from, Dtype dtype, std::int64_t count, float scale,
                  float* to);
void round_to_8_bits(const float* from, Dtype dtype, std::int64_t count, float factor,
                     std::uint8_t* to);

// What numbers whose largest magnitude is given are multiplied by before they are rounded: so that
// it becomes the format's largest number; with `power`, by the largest power of two by which it
// becomes no larger. 1 where all are 0. NaN or infinity among them make all of them NaN.
float factor_to_8_bits(float largest, Dtype dtype, bool power);

// The same where no largest magnitude is known yet: numbers are of the size of `expected`.
float first_factor(double expected);

// One number at a time, by the definition of the formats: what the above is tested against.
float reference_value(std::uint8_t bits, Dtype dtype);
std::uint8_t reference_8_bits(float x, Dtype dtype);

}  // namespace meshwright
