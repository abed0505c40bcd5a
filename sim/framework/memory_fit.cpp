#include "sim/framework/memory_fit.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

constexpr int most = 1 << 20;

}  // namespace

// First extrapolates to a count that does not fit. Then interpolates between the largest count
// known to fit and the smallest known not to, which finds the result after a few tries. Every
// second try halves the interval instead.
LargestBatch largest_that_fits(std::int64_t limit, const std::function<MemoryFit(int)>& fit) {
  int low = 1, high = 2;
  MemoryFit at_low = fit(low), at_high;
  if (!at_low.fits) return {};
  while ((at_high = fit(high)).fits) {
    if (high >= most) return {high, at_high.bytes};
    const std::int64_t each =
        std::max<std::int64_t>(1, (at_high.bytes - at_low.bytes) / (high - low));
    const std::int64_t guess = high + (limit - at_high.bytes) / each + 1;
    low = high, at_low = at_high;
    high = static_cast<int>(std::clamp<std::int64_t>(guess, high + 1, most));
  }
  for (bool halve = false; high - low > 1; halve = !halve) {
    const std::int64_t rise = at_high.bytes - at_low.bytes;
    std::int64_t middle = low + (high - low) / 2;
    if (!halve && rise > 0) middle = low + (limit - at_low.bytes) * (high - low) / rise;
    const int next = static_cast<int>(std::clamp<std::int64_t>(middle, low + 1, high - 1));
    const MemoryFit at_next = fit(next);
    (at_next.fits ? low : high) = next;
    (at_next.fits ? at_low : at_high) = at_next;
  }
  return {low, at_low.bytes};
}

}  // namespace meshwright::sim
