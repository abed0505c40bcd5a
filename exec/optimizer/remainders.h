// Splits an fp32 number into the nearest bf16 (ties away from zero, so that every number has one
// result) and the 16 bits that it lacks. Together they give the number back bit by bit, except for
// NaNs. Apex's DistributedFusedAdam and Transformer Engine's FusedAdam keep masters in this way
// (store_param_remainders).
#pragma once

#include <bit>
#include <cstdint>

#include "exec/core/half.h"
#include "models/core/dtype.h"

namespace meshwright::exec {

struct SplitNumber {
  BFloat16 upper;
  std::int16_t remainder;
};

inline SplitNumber split(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  // A NaN gets bits with which it stays a NaN. Otherwise it might become zero when it is rounded
  // up, or infinite when bits are cut off.
  const std::uint32_t kept = is_nan ? (bits & 0xffff0000U) | 0x00400000U : bits;
  return {{static_cast<std::uint16_t>((kept + 0x8000U) >> 16)}, static_cast<std::int16_t>(kept)};
}

// Returns the fp32 number. A negative remainder means that the bf16 number was rounded up.
inline float join(SplitNumber parts) {
  const std::uint32_t upper = parts.upper.bits - (parts.remainder < 0 ? 1U : 0U);
  return std::bit_cast<float>(upper << 16 | static_cast<std::uint16_t>(parts.remainder));
}

// Split and join rows of `count` numbers.
void split(const float* from, std::int64_t count, BFloat16* upper, std::int16_t* remainders);
void join(const BFloat16* upper, const std::int16_t* remainders, std::int64_t count, float* to);

// Rounds masters to the f16 or bf16 weights that are computed with. The result is the nearest
// number, for bf16 that of split(), so that it is the same whether masters are kept whole or as
// remainders.
void round_masters(const float* masters, Dtype dtype, std::int64_t count, void* to);

}  // namespace meshwright::exec
