#include "exec/core/weight_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "exec/core/block_codes.h"
#include "exec/core/half.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr std::int64_t nf4_block = dtype_block(Dtype::nf4).elements;
constexpr std::uint8_t zero_of_nf4 = 7, zero_of_int4 = 8;
constexpr float most_of_int4 = 7;

// The limit between two codes is the middle of their values. A number on a limit gets the lower
// code, as in bitsandbytes.
constexpr std::array<float, 15> nf4_limits = [] {
  std::array<float, 15> limits{};
  for (std::size_t i = 0; i < limits.size(); ++i)
    limits[i] = (nf4_values[i] + nf4_values[i + 1]) / 2;
  return limits;
}();

std::uint8_t nf4_code(float x) {
  std::uint8_t code = 0;
  for (const float limit : nf4_limits) code = static_cast<std::uint8_t>(code + (x > limit ? 1 : 0));
  return code;
}

float largest_magnitude(const float* values, std::int64_t count) {
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

// Writes the codes of `count` numbers, an even count, two to a byte.
template <typename CodeOf>
void write_codes(const float* from, std::int64_t count, std::uint8_t* to, const CodeOf& code_of) {
  for (std::int64_t i = 0; i < count / 2; ++i)
    to[i] = static_cast<std::uint8_t>(code_of(from[2 * i]) | code_of(from[2 * i + 1]) << 4U);
}

// Writes the values that codes stand for, times `scale`.
template <typename ValueOf>
void read_codes(const std::uint8_t* from, std::int64_t count, float scale, float* to,
                const ValueOf& value_of) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = value_of(i % 2 == 0 ? from[i / 2] & 15U : from[i / 2] >> 4U) * scale;
}

// Writes the codes of a block of nf4, and returns its scale.
float narrow_to_nf4(const float* from, std::uint8_t* codes) {
  const float scale = largest_magnitude(from, nf4_block);
  write_codes(from, nf4_block, codes,
              [=](float x) { return scale > 0 ? nf4_code(x / scale) : zero_of_nf4; });
  return scale;
}

void widen_nf4(const std::uint8_t* codes, float scale, std::int64_t count, float* to) {
  read_codes(codes, count, scale, to, [](unsigned code) { return nf4_values[code]; });
}

void narrow_to_double(const float* from, std::byte* to) {
  float scales[moment_block];
  auto* codes = reinterpret_cast<std::uint8_t*>(to);
  for (std::int64_t b = 0; b < moment_block; ++b)
    scales[b] = narrow_to_nf4(from + b * nf4_block, codes + b * nf4_block / 2);
  narrow_to_blocks(scales, Dtype::block8u, moment_block, to + moment_block * nf4_block / 2);
}

void widen_double(const std::byte* from, std::int64_t count, float* to) {
  float scales[moment_block];
  widen_blocks(from + moment_block * nf4_block / 2, Dtype::block8u, moment_block, scales);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(from);
  for (std::int64_t b = 0; b * nf4_block < count; ++b)
    widen_nf4(codes + b * nf4_block / 2, scales[b], std::min(nf4_block, count - b * nf4_block),
              to + b * nf4_block);
}

void narrow_to_group(const float* from, std::int64_t group, std::byte* to) {
  const float wanted = largest_magnitude(from, group) / most_of_int4;
  BFloat16 stored{};
  narrow(&wanted, 1, &stored);
  std::memcpy(to + group / 2, &stored, sizeof stored);
  float scale = 0;
  widen(&stored, 1, &scale);
  write_codes(from, group, reinterpret_cast<std::uint8_t*>(to), [=](float x) {
    if (scale == 0) return zero_of_int4;
    const float whole = std::clamp(std::nearbyint(x / scale), -most_of_int4, most_of_int4);
    return static_cast<std::uint8_t>(whole + zero_of_int4);
  });
}

void widen_group(const std::byte* from, std::int64_t group, std::int64_t count, float* to) {
  BFloat16 stored{};
  std::memcpy(&stored, from + group / 2, sizeof stored);
  float scale = 0;
  widen(&stored, 1, &scale);
  read_codes(reinterpret_cast<const std::uint8_t*>(from), count, scale, to,
             [](unsigned code) { return static_cast<float>(code) - zero_of_int4; });
}

void narrow_block(const float* from, Dtype dtype, const DtypeBlock& block, std::byte* to) {
  if (dtype == Dtype::nf4_double) return narrow_to_double(from, to);
  if (dtype != Dtype::nf4) return narrow_to_group(from, block.elements, to);
  const float scale = narrow_to_nf4(from, reinterpret_cast<std::uint8_t*>(to));
  std::memcpy(to + nf4_block / 2, &scale, sizeof scale);
}

void widen_block(const std::byte* from, Dtype dtype, const DtypeBlock& block, std::int64_t count,
                 float* to) {
  if (dtype == Dtype::nf4_double) return widen_double(from, count, to);
  if (dtype != Dtype::nf4) return widen_group(from, block.elements, count, to);
  float scale = 0;
  std::memcpy(&scale, from + nf4_block / 2, sizeof scale);
  widen_nf4(reinterpret_cast<const std::uint8_t*>(from), scale, count, to);
}

}  // namespace

void widen_weight_blocks(const void* from, Dtype dtype, std::int64_t count, float* to) {
  const DtypeBlock block = dtype_block(dtype);
  const auto* at = static_cast<const std::byte*>(from);
  for (; count > 0; count -= block.elements, at += block.bytes, to += block.elements)
    widen_block(at, dtype, block, std::min(count, block.elements), to);
}

void narrow_to_weight_blocks(const float* from, Dtype dtype, std::int64_t count, void* to) {
  const DtypeBlock block = dtype_block(dtype);
  auto* at = static_cast<std::byte*>(to);
  for (; count >= block.elements; count -= block.elements, at += block.bytes) {
    narrow_block(from, dtype, block, at);
    from += block.elements;
  }
  if (count == 0) return;
  std::vector<float> last(static_cast<std::size_t>(block.elements), 0.0F);
  std::copy_n(from, count, last.begin());
  narrow_block(last.data(), dtype, block, at);
}

}  // namespace meshwright::exec
