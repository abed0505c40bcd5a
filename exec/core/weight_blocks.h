// Weights in blocks of 4-bit codes, for the types of models/core/dtype.h from nf4 on. The bytes of
// a block begin with its codes, two in a byte, the first in the lower half. Its scales follow.
//
// nf4 (Dettmers et al., "QLoRA", 2023): a block has 64 codes and, in fp32, the largest magnitude of
// its numbers. Code c stands for nf4_values[c] times that. nf4_double: 256 such blocks are one, and
// their 256 scales are a block of block8u (exec/core/block_codes.h). A number is rounded to the
// nearest value before its scale is. bitsandbytes also subtracts the mean of all scales of a tensor
// before it rounds them; here no block depends on another, so that ranks can share a tensor.
//
// int4: a block is a group of g codes and, in bf16, the largest magnitude of its numbers / 7. Code
// c stands for c - 8 times that, from -7 to 7. Code 0 is not used.
#pragma once

#include <array>
#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright::exec {

// Quantiles of the normal distribution, scaled to [-1, 1] (Dettmers et al. 2023, appendix E).
inline constexpr std::array<float, 16> nf4_values = {-1.0F,
                                                     -0.6961928009986877F,
                                                     -0.5250730514526367F,
                                                     -0.39491748809814453F,
                                                     -0.28444138169288635F,
                                                     -0.18477343022823334F,
                                                     -0.09105003625154495F,
                                                     0.0F,
                                                     0.07958029955625534F,
                                                     0.16093020141124725F,
                                                     0.24611230194568634F,
                                                     0.33791524171829224F,
                                                     0.44070982933044434F,
                                                     0.5626170039176941F,
                                                     0.7229568362236023F,
                                                     1.0F};

// Convert `count` numbers between blocks and fp32. The first number begins a block. Unneeded codes
// of the last block stand for 0. Numbers that are widened and then narrowed again have the same
// values.
void widen_weight_blocks(const void* from, Dtype dtype, std::int64_t count, float* to);
void narrow_to_weight_blocks(const float* from, Dtype dtype, std::int64_t count, void* to);

}  // namespace meshwright::exec
