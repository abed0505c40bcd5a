#include "exec/core/four_bits.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "exec/core/eight_bits.h"
#include "exec/core/philox.h"

namespace meshwright::exec {

namespace {

constexpr float most = 6;
constexpr std::array<float, 16> numbers_of_4_bits = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                                                     -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

std::uint8_t sign_of(float x) {
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(x) >> 28U & 8U);
}

// Rounds to nearest. Thresholds are half way between neighbours, and the threshold itself belongs
// to the neighbour with even bits.
std::uint8_t nearest_4_bits(float x) {
  const float size = std::fabs(x);
  const int bits = (size > 0.25F) + (size >= 0.75F) + (size > 1.25F) + (size >= 1.75F) +
                   (size > 2.5F) + (size >= 3.5F) + (size > 5.0F);
  return static_cast<std::uint8_t>(bits | sign_of(x));
}

std::uint8_t random_4_bits(float x, std::uint32_t random) {
  const float size = std::min(std::fabs(x), most);
  const int below = (size >= 0.5F) + (size >= 1) + (size >= 1.5F) + (size >= 2) + (size >= 3) +
                    (size >= 4) + (size >= most);
  const float steps = below < 4 ? 2.0F : below < 6 ? 1.0F : 0.5F;  // per unit
  const double share =
      static_cast<double>(size - numbers_of_4_bits[below]) * static_cast<double>(steps);
  const int bits = below + (static_cast<double>(random) < share * 0x1p32 ? 1 : 0);
  return static_cast<std::uint8_t>(bits | sign_of(x));
}

std::uint8_t pair_of(std::uint8_t first, std::uint8_t second) {
  return static_cast<std::uint8_t>(first | second << 4U);
}

}  // namespace

void widen_4_bits(const std::uint8_t* from, std::int64_t count, float scale, float* to) {
  for (std::int64_t i = 0; i < count; i += 2) {
    const std::uint8_t pair = from[i / 2];
    to[i] = numbers_of_4_bits[pair & 15U] * scale;
    to[i + 1] = numbers_of_4_bits[pair >> 4U] * scale;
  }
}

void round_to_4_bits(const float* from, std::int64_t count, float factor, std::uint8_t* to) {
  for (std::int64_t i = 0; i < count; i += 2)
    to[i / 2] = pair_of(nearest_4_bits(from[i] * factor), nearest_4_bits(from[i + 1] * factor));
}

void round_to_4_bits(const float* from, std::int64_t count, float factor,
                     const std::uint32_t* random, std::uint8_t* to) {
  for (std::int64_t i = 0; i < count; i += 2)
    to[i / 2] = pair_of(random_4_bits(from[i] * factor, random[i]),
                        random_4_bits(from[i + 1] * factor, random[i + 1]));
}

float tensor_factor(float largest) {
  if (largest == 0) return 1;
  const float factor = most * largest_of(Dtype::e4m3) / largest;
  return std::isnan(factor) ? factor : std::min(factor, FLT_MAX);
}

std::uint8_t block_scale(float largest_of_block, float tensor_factor) {
  const float scale = largest_of_block / most * tensor_factor;
  std::uint8_t bits = 0;
  round_to_8_bits(&scale, Dtype::e4m3, 1, 1, &bits);
  return bits;
}

float block_factor(std::uint8_t scale, float tensor_factor) {
  float value = 0;
  widen_8_bits(&scale, Dtype::e4m3, 1, 1, &value);
  const float factor = 1 / (value * (1 / tensor_factor));
  return std::isnan(factor) ? factor : std::min(factor, FLT_MAX);
}

void hadamard_16(float* numbers, std::uint32_t signs) {
  for (unsigned i = 0; i < 16; ++i)
    if ((signs >> i & 1U) != 0) numbers[i] = -numbers[i];
  for (int half = 1; half < 16; half *= 2)
    for (int first = 0; first < 16; first += 2 * half)
      for (int i = first; i < first + half; ++i) {
        const float a = numbers[i], b = numbers[i + half];
        numbers[i] = a + b;
        numbers[i + half] = a - b;
      }
  for (int i = 0; i < 16; ++i) numbers[i] *= 0.25F;
}

std::uint32_t hadamard_signs(std::uint64_t key) {
  return philox({}, {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32U)})[0] &
         0xFFFFU;
}

float reference_value_of_4(std::uint8_t bits) {
  const int exponent = bits >> 1 & 3, fraction = bits & 1;
  const double size = exponent == 0 ? fraction / 2.0 : std::ldexp(2 + fraction, exponent - 2);
  return static_cast<float>((bits & 8U) != 0 ? -size : size);
}

std::uint8_t reference_4_bits(float x) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(x) ? 8 : 0);
  if (std::isnan(x)) return sign;
  const double size = std::fabs(static_cast<double>(x));
  std::uint8_t nearest = 0;
  for (std::uint8_t bits = 0; bits < 8; ++bits) {
    const auto distance = [&](std::uint8_t of) {
      return std::fabs(std::min(size, 6.0) - static_cast<double>(reference_value_of_4(of)));
    };
    if (distance(bits) < distance(nearest) ||
        (distance(bits) == distance(nearest) && bits % 2 == 0))
      nearest = bits;
  }
  return sign | nearest;
}

std::uint8_t reference_4_bits(float x, std::uint32_t random) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(x) ? 8 : 0);
  if (std::isnan(x)) return sign;
  const double size = std::fabs(static_cast<double>(x));
  if (size >= 6) return sign | 7;
  std::uint8_t above = 1;
  while (static_cast<double>(reference_value_of_4(above)) <= size) ++above;
  const auto low = static_cast<double>(reference_value_of_4(above - 1)),
             high = static_cast<double>(reference_value_of_4(above));
  const bool up = static_cast<double>(random) * 0x1p-32 < (size - low) / (high - low);
  return sign | (up ? above : static_cast<std::uint8_t>(above - 1));
}

}  // namespace meshwright::exec
