#include "exec/core/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "exec/core/block_codes.h"
#include "exec/core/weight_blocks.h"
#include "models/core/error.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace meshwright::exec {

namespace {

// A binary format with `fraction` explicit bits and exponents from `least` to `most`.
struct Format {
  int fraction, least, most;
};
constexpr Format half_format{10, -14, 15}, bfloat16_format{7, -126, 127};

float value_in(const Format& format, std::uint16_t bits) {
  const int exponent_bits = 15 - format.fraction;
  const int fraction = bits & ((1 << format.fraction) - 1);
  const int exponent = bits >> format.fraction & ((1 << exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const bool special = exponent == (1 << exponent_bits) - 1;
  if (special && fraction != 0) return std::numeric_limits<float>::quiet_NaN();
  if (special) return static_cast<float>(sign * std::numeric_limits<double>::infinity());
  // Subnormal numbers have no leading one.
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.fraction);
  const int power = exponent == 0 ? format.least : exponent + format.least - 1;
  return static_cast<float>(sign * std::ldexp(whole, power - format.fraction));
}

std::uint16_t bits_in(const Format& format, float x) {
  const int sign = std::signbit(x) ? 0x8000 : 0;
  const int infinite = (format.most - format.least + 2) << format.fraction;
  const auto result = [&](int bits) { return static_cast<std::uint16_t>(sign | bits); };
  if (std::isnan(x)) return result(infinite | 1 << (format.fraction - 1));
  const double size = std::fabs(static_cast<double>(x));
  if (std::isinf(size)) return result(infinite);
  if (size == 0) return result(0);
  // Counts units of the last place at the number's exponent. nearbyint rounds ties to even.
  int power = std::max(std::ilogb(size), format.least);
  double units = std::nearbyint(std::ldexp(size, format.fraction - power));
  if (units == std::ldexp(1.0, format.fraction + 1)) {
    units /= 2;
    ++power;
  }
  if (power > format.most) return result(infinite);
  const int whole = static_cast<int>(units), leading = 1 << format.fraction;
  if (whole < leading) return result(whole);
  return result((power - format.least + 1) << format.fraction | (whole - leading));
}

}  // namespace

float reference_value(Half x) { return value_in(half_format, x.bits); }
float reference_value(BFloat16 x) { return value_in(bfloat16_format, x.bits); }
Half reference_half(float x) { return {bits_in(half_format, x)}; }
BFloat16 reference_bfloat16(float x) { return {bits_in(bfloat16_format, x)}; }

void widen(const BFloat16* from, std::int64_t count, float* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i].bits) << 16U);
}

void narrow(const float* from, std::int64_t count, BFloat16* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(from[i]);
    // Adds just under half of the last kept place, and one more if that place is odd. A carry
    // rounds up, so ties go to even.
    const std::uint32_t nearest = (bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U;
    const std::uint32_t quiet_nan = bits >> 16U | 0x40U;
    const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    to[i].bits = static_cast<std::uint16_t>(is_nan ? quiet_nan : nearest);
  }
}

#ifdef __F16C__

void widen(const Half* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(eight));
  }
  for (; i < count; ++i) to[i] = _cvtsh_ss(from[i].bits);
}

void narrow(const float* from, std::int64_t count, Half* to) {
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), nearest));
  for (; i < count; ++i) to[i].bits = static_cast<std::uint16_t>(_cvtss_sh(from[i], nearest));
}

#else

void widen(const Half* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = reference_value(from[i]);
}

void narrow(const float* from, std::int64_t count, Half* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = reference_half(from[i]);
}

#endif

void widen(const void* from, Dtype dtype, std::int64_t count, float* to) {
  if (dtype == Dtype::f16) return widen(static_cast<const Half*>(from), count, to);
  if (dtype == Dtype::bf16) return widen(static_cast<const BFloat16*>(from), count, to);
  if (dtype == Dtype::block8 || dtype == Dtype::block8u)
    return widen_blocks(from, dtype, count, to);
  if (is_in_blocks(dtype)) return widen_weight_blocks(from, dtype, count, to);
  if (dtype == Dtype::f64) {
    std::copy_n(static_cast<const double*>(from), count, to);
    return;
  }
  MESHWRIGHT_CHECK(dtype == Dtype::f32, "numbers of 16 and 64 bits and blocks are converted");
  std::copy_n(static_cast<const float*>(from), count, to);
}

void narrow(const float* from, Dtype dtype, std::int64_t count, void* to) {
  if (dtype == Dtype::f16) return narrow(from, count, static_cast<Half*>(to));
  if (dtype == Dtype::bf16) return narrow(from, count, static_cast<BFloat16*>(to));
  if (dtype == Dtype::block8 || dtype == Dtype::block8u)
    return narrow_to_blocks(from, dtype, count, to);
  if (is_in_blocks(dtype)) return narrow_to_weight_blocks(from, dtype, count, to);
  if (dtype == Dtype::f64) {
    std::copy_n(from, count, static_cast<double*>(to));
    return;
  }
  MESHWRIGHT_CHECK(dtype == Dtype::f32, "numbers are converted to 16 and 64 bits and to blocks");
  std::copy_n(from, count, static_cast<float*>(to));
}

}  // namespace meshwright::exec
