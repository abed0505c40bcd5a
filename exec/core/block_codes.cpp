#include "exec/core/block_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace meshwright::exec {

namespace {

constexpr BlockCodes signed_codes = block_codes(Dtype::block8),
                     unsigned_codes = block_codes(Dtype::block8u);
const BlockCodes& codes_of(Dtype dtype) {
  return dtype == Dtype::block8 ? signed_codes : unsigned_codes;
}

// Returns the number of limits below x, by binary search among `codes` - 1 limits. `codes` is a
// power of two.
template <std::uint32_t codes>
std::uint32_t code_above(const float* limits, float x) {
  std::uint32_t code = 0;
  for (std::uint32_t step = codes / 2; step > 0; step /= 2)
    code += x > limits[code + step] ? step : 0;
  return code;
}

template <std::uint32_t codes>
void write_codes(const float* from, const float* limits, float scale, std::uint8_t* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < moment_block; ++i) {
    const std::uint32_t code = code_above<codes>(limits, std::abs(from[i]) / scale);
    const auto sign = std::bit_cast<std::uint32_t>(from[i]) >> 31U;
    to[i] = static_cast<std::uint8_t>(code + (codes == 128 && code > 0 ? sign * 128 : 0));
  }
}

void narrow_block(const float* from, Dtype dtype, std::byte* to) {
  float scale = 0;
#pragma omp simd reduction(max : scale)
  for (std::int64_t i = 0; i < moment_block; ++i) scale = std::max(scale, std::abs(from[i]));
  std::memcpy(to + moment_block, &scale, sizeof scale);
  auto* codes = reinterpret_cast<std::uint8_t*>(to);
  if (scale == 0)
    std::fill_n(codes, moment_block, std::uint8_t{0});
  else if (dtype == Dtype::block8)
    write_codes<128>(from, signed_codes.limits, scale, codes);
  else
    write_codes<256>(from, unsigned_codes.limits, scale, codes);
}

}  // namespace

void widen_blocks(const void* from, Dtype dtype, std::int64_t count, float* to) {
  const float* values = codes_of(dtype).values;
  const auto* block = static_cast<const std::byte*>(from);
  for (; count > 0; count -= moment_block, block += moment_block_bytes, to += moment_block) {
    float scale = 0;
    std::memcpy(&scale, block + moment_block, sizeof scale);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(block);
    const std::int64_t end = std::min(count, moment_block);
#pragma omp simd
    for (std::int64_t i = 0; i < end; ++i) to[i] = values[codes[i]] * scale;
  }
}

void narrow_to_blocks(const float* from, Dtype dtype, std::int64_t count, void* to) {
  auto* block = static_cast<std::byte*>(to);
  for (; count >= moment_block; count -= moment_block, block += moment_block_bytes) {
    narrow_block(from, dtype, block);
    from += moment_block;
  }
  if (count == 0) return;
  float last[moment_block] = {};
  std::copy_n(from, count, last);
  narrow_block(last, dtype, block);
}

}  // namespace meshwright::exec
