// Numbers of 4 bits (e2m1) and the scales of NVFP4 ("Pretraining Large Language Models with NVFP4",
// arXiv 2509.25149, appendix C). 16 elements share one scale in e4m3, and a tensor has one in fp32.
// An element stands for its number * its block's scale * amax / 2688. Here amax is the tensor's
// largest magnitude, and 2688 = 6 * 448 is the product of the largest numbers of e2m1 and e4m3.
// Numbers that are too large become 6 with their sign. NaN becomes 0, but then the tensor's amax is
// NaN, and with it every element.
//
// A byte holds two numbers, the first in its lower half. Counts are even.
#pragma once

#include <cstdint>

namespace meshwright::exec {

// Writes to[i] = from[i] * scale.
void widen_4_bits(const std::uint8_t* from, std::int64_t count, float scale, float* to);

// Writes to[i] = from[i] * factor, rounded to nearest (ties to even).
void round_to_4_bits(const float* from, std::int64_t count, float factor, std::uint8_t* to);

// Writes to[i] = from[i] * factor, rounded at random to one of its two neighbours, with
// probabilities whose mean is the number. The 32 random bits random[i] decide.
void round_to_4_bits(const float* from, std::int64_t count, float factor,
                     const std::uint32_t* random, std::uint8_t* to);

// Returns the factor that multiplies a tensor's numbers before blocks are scaled, given their
// largest magnitude: 2688 / largest, at most the largest finite number, or 1 if all are 0.
float tensor_factor(float largest);
// Return the scale of a block, in e4m3, and the factor that multiplies its numbers before they are
// rounded. The factor is the inverse of what multiplies them afterwards, at most the largest finite
// number.
std::uint8_t block_scale(float largest_of_block, float tensor_factor);
float block_factor(std::uint8_t scale, float tensor_factor);

// Changes the sign of number i if bit i of `signs` is set, then applies a Walsh-Hadamard transform
// to the 16 numbers. The transform is orthogonal, so the dot product of two vectors stays the same
// if both go through it.
void hadamard_16(float* numbers, std::uint32_t signs);
std::uint32_t hadamard_signs(std::uint64_t key);

// Convert one number at a time by the definition of the format. The functions above are tested
// against them.
float reference_value_of_4(std::uint8_t bits);
std::uint8_t reference_4_bits(float x);
std::uint8_t reference_4_bits(float x, std::uint32_t random);

}  // namespace meshwright::exec
