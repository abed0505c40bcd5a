// Numbers stored in 16 bits and their conversion. To fp32 it is exact. From fp32 it rounds to
// nearest (ties to even). Numbers that are too large become infinite, and NaN stays NaN.
#pragma once

#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright::exec {

struct Half {  // IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits
  std::uint16_t bits;
};
struct BFloat16 {  // the upper half of an fp32 number
  std::uint16_t bits;
};

// Convert rows of numbers, in vector code if the program is compiled for processors that have it.
void widen(const Half* from, std::int64_t count, float* to);
void widen(const BFloat16* from, std::int64_t count, float* to);
void narrow(const float* from, std::int64_t count, Half* to);
void narrow(const float* from, std::int64_t count, BFloat16* to);

// Convert numbers of the type `dtype`: f16, bf16, f64, which becomes fp32 rounded to nearest, or a
// type in blocks (block_codes.h, weight_blocks.h), from a block's first element on. f32 is copied.
void widen(const void* from, Dtype dtype, std::int64_t count, float* to);
void narrow(const float* from, Dtype dtype, std::int64_t count, void* to);

// Convert one number at a time by the definition of the formats. The functions above are tested
// against them.
float reference_value(Half x);
float reference_value(BFloat16 x);
Half reference_half(float x);
BFloat16 reference_bfloat16(float x);

}  // namespace meshwright::exec
