// Numbers in blocks of 8 bits ("8-bit Optimizers via Block-wise Quantization", Dettmers et al.
// 2022). A block holds 256 codes and, in fp32, the largest magnitude of its numbers, which
// multiplies the values that the codes stand for. Codes are those of dynamic quantization. The
// leading zeros count the decades below 1, the first 1 ends them, and the p bits after it divide
// the decade into 2^p equal parts. With b bits in all, code 2^p + f stands for 10^(p - b + 1) *
// (0.1 + 0.9 (f + 1) / 2^p), and code 0 for 0. So every decade ends where the next one begins, and
// the largest number is exact. block8 has 7 such bits below a sign, from 10^-6 on. block8u has 8
// and no sign, from 10^-7 on.
#pragma once

#include <bit>
#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright::exec {

// The values that codes stand for, and the limits between codes. The code of a number's magnitude,
// divided by the block's, is the count of limits, from limits[1] on, that are below it. In block8,
// a negative number whose code is not 0 adds 128.
struct BlockCodes {
  float values[256] = {}, limits[256] = {};
};

constexpr double magnitude_of_code(std::uint32_t code, int bits) {
  constexpr double decades[] = {1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};
  if (code == 0) return 0;
  const int behind = std::bit_width(code) - 1;
  const double parts = std::uint32_t{1} << behind;
  return decades[bits - 1 - behind] * (0.1 + 0.9 * (code - parts + 1) / parts);
}

// The limit between two codes is their midpoint. In block8u, the limit above code 0 is 0, because
// optimizers divide by the root of a second moment, which must not be rounded to 0.
constexpr BlockCodes block_codes(Dtype dtype) {
  const int bits = dtype == Dtype::block8 ? 7 : 8;
  BlockCodes codes;
  for (std::uint32_t code = 1; code < std::uint32_t{1} << bits; ++code) {
    const double value = magnitude_of_code(code, bits), before = magnitude_of_code(code - 1, bits);
    codes.values[code] = static_cast<float>(value);
    if (bits == 7) codes.values[code + 128] = -codes.values[code];
    codes.limits[code] = bits == 8 && code == 1 ? 0 : static_cast<float>((before + value) / 2);
  }
  return codes;
}

// Convert `count` numbers between blocks and fp32. The first number begins a block. Unneeded codes
// of the last block become 0. Blocks that are widened and then narrowed again keep their bits.
void widen_blocks(const void* from, Dtype dtype, std::int64_t count, float* to);
void narrow_to_blocks(const float* from, Dtype dtype, std::int64_t count, void* to);

}  // namespace meshwright::exec
