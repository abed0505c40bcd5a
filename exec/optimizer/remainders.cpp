#include "exec/optimizer/remainders.h"

namespace meshwright::exec {

void split(const float* from, std::int64_t count, BFloat16* upper, std::int16_t* remainders) {
  for (std::int64_t i = 0; i < count; ++i) {
    const SplitNumber parts = split(from[i]);
    upper[i] = parts.upper;
    remainders[i] = parts.remainder;
  }
}

void join(const BFloat16* upper, const std::int16_t* remainders, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = join({upper[i], remainders[i]});
}

void round_masters(const float* masters, Dtype dtype, std::int64_t count, void* to) {
  if (dtype != Dtype::bf16) return narrow(masters, dtype, count, to);
  auto* rounded = static_cast<BFloat16*>(to);
  for (std::int64_t i = 0; i < count; ++i) rounded[i] = split(masters[i]).upper;
}

}  // namespace meshwright::exec
