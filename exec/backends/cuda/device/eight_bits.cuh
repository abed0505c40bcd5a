// Numbers of 8 bits on the device: rounding to them, and what is multiplied by before.
#pragma once

#include <cfloat>

#include "exec/backends/cuda/device/prelude.cuh"
#include "models/core/dtype.h"

namespace meshwright::cuda {

// Bits of fraction, the exponent's bias, the largest finite number and NaN.
template <Dtype format>
struct Format;
template <>
struct Format<Dtype::e4m3> {
  static constexpr int fraction = 3, bias = 7;
  static constexpr float largest = 448.0f;
  static constexpr unsigned int largest_bits = 0x7e, nan_bits = 0x7f;
};
template <>
struct Format<Dtype::e5m2> {
  static constexpr int fraction = 2, bias = 15;
  static constexpr float largest = 57344.0f;
  static constexpr unsigned int largest_bits = 0x7b, nan_bits = 0x7f;
};

// To nearest, ties to even; what is too large becomes the largest number.
template <Dtype format>
__device__ unsigned char fp8_of(float x) {
  using F = Format<format>;
  const unsigned int bits = __float_as_uint(x), sign = bits >> 24 & 0x80u;
  const unsigned int magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<unsigned char>(sign | F::nan_bits);
  constexpr int dropped = 23 - F::fraction;
  constexpr unsigned int least_normal = static_cast<unsigned int>(127 - F::bias + 1) << 23;
  unsigned int rounded;
  if (magnitude >= least_normal) {
    rounded = magnitude + ((1u << (dropped - 1)) - 1) + (magnitude >> dropped & 1u);
    rounded = (rounded >> dropped) - (static_cast<unsigned int>(127 - F::bias) << F::fraction);
  } else {
    // Added to 2^23 of the smallest steps, the sum's last place is one of them.
    constexpr float steps = static_cast<float>(1 << (F::bias - 1 + F::fraction));
    rounded = __float_as_uint(__uint_as_float(magnitude) * steps + 8388608.0f) & 0xffu;
  }
  return static_cast<unsigned char>(sign | (rounded > F::largest_bits ? F::largest_bits : rounded));
}

// Of a matrix whose largest magnitude is known. Zeros stay zeros; NaN and infinity make all NaN.
template <Dtype format>
__device__ float factor_of(float largest) {
  if (largest == 0.0f) return 1.0f;
  const float factor = Format<format>::largest / largest;
  return factor > FLT_MAX ? FLT_MAX : factor;  // infinity would make zeros NaN
}

}  // namespace meshwright::cuda
