#include "exec/core/eight_bits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

namespace meshwright::exec {

namespace {

// A format: its number of fraction bits, the exponent's bias, and the bits of the largest number.
// Above these bits, e4m3 has only NaN, and e5m2 has infinity and NaN.
struct Format {
  int fraction, bias;
  std::uint32_t largest;
};
constexpr Format e4m3{3, 7, 0x7e}, e5m2{2, 15, 0x7b};
constexpr std::uint32_t nan_bits = 0x7f;
constexpr Format format_of(Dtype dtype) { return dtype == Dtype::e5m2 ? e5m2 : e4m3; }

std::array<float, 256> values_of(Dtype dtype) {
  std::array<float, 256> values{};
  for (std::size_t bits = 0; bits < values.size(); ++bits)
    values[bits] = reference_value(static_cast<std::uint8_t>(bits), dtype);
  return values;
}

template <int fraction, int bias, std::uint32_t largest>
std::uint8_t rounded(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), sign = bits >> 24U & 0x80U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  constexpr std::uint32_t dropped = 23 - fraction;
  constexpr std::uint32_t least_normal = static_cast<std::uint32_t>(127 - bias + 1) << 23U;
  // Adds just under half of the last kept place, and one more if that place is odd. A carry rounds
  // up, so ties go to even.
  const std::uint32_t normal =
      ((magnitude + ((1U << (dropped - 1)) - 1) + (magnitude >> dropped & 1U)) >> dropped) -
      (static_cast<std::uint32_t>(127 - bias) << fraction);
  // Rounds subnormal numbers: after 2^23 of the smallest steps are added, the sum's last place is
  // one such step.
  constexpr auto steps = static_cast<float>(1 << (bias - 1 + fraction));
  const float small = std::min(std::bit_cast<float>(magnitude), 1.0F);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(small * steps + 8388608.0F) & 0xFFU;
  const std::uint32_t finite = std::min(magnitude >= least_normal ? normal : subnormal, largest);
  return static_cast<std::uint8_t>(sign | (magnitude > 0x7F800000U ? nan_bits : finite));
}

template <int fraction, int bias, std::uint32_t largest>
void round_all(const float* from, std::int64_t count, float factor, std::uint8_t* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = rounded<fraction, bias, largest>(from[i] * factor);
}

}  // namespace

void widen_8_bits(const std::uint8_t* from, Dtype dtype, std::int64_t count, float scale,
                  float* to) {
  static const std::array<float, 256> of_e4m3 = values_of(Dtype::e4m3),
                                      of_e5m2 = values_of(Dtype::e5m2);
  const float* values = (dtype == Dtype::e5m2 ? of_e5m2 : of_e4m3).data();
  for (std::int64_t i = 0; i < count; ++i) to[i] = values[from[i]] * scale;
}

void round_to_8_bits(const float* from, Dtype dtype, std::int64_t count, float factor,
                     std::uint8_t* to) {
  if (dtype == Dtype::e5m2)
    round_all<e5m2.fraction, e5m2.bias, e5m2.largest>(from, count, factor, to);
  else
    round_all<e4m3.fraction, e4m3.bias, e4m3.largest>(from, count, factor, to);
}

float factor_to_8_bits(float largest, Dtype dtype, bool power) {
  if (largest == 0) return 1;
  // The factor is finite, because infinity would make zeros NaN.
  const float factor = std::min(largest_of(dtype) / largest, FLT_MAX);
  if (!power || std::isnan(largest) || factor == 0) return std::isnan(largest) ? largest : factor;
  return std::ldexp(1.0F, std::clamp(std::ilogb(factor), -126, 126));
}

float first_factor(double expected) { return std::ldexp(1.0F, -std::ilogb(expected)); }

float reference_value(std::uint8_t bits, Dtype dtype) {
  const Format format = format_of(dtype);
  const std::uint32_t magnitude = bits & 0x7FU;
  const double sign = (bits & 0x80U) != 0 ? -1 : 1;
  if (magnitude > format.largest) {
    const bool infinite = dtype == Dtype::e5m2 && magnitude == format.largest + 1;
    return infinite ? static_cast<float>(sign) * std::numeric_limits<float>::infinity()
                    : std::numeric_limits<float>::quiet_NaN();
  }
  const int exponent = static_cast<int>(magnitude) >> format.fraction;
  const int fraction = static_cast<int>(magnitude) & ((1 << format.fraction) - 1);
  // Subnormal numbers have no leading one.
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.fraction);
  return static_cast<float>(
      sign * std::ldexp(whole, std::max(exponent, 1) - format.bias - format.fraction));
}

}  // namespace meshwright::exec
