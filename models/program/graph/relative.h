// Assigns relative positions to buckets (T5: Raffel et al., 2020, section 2.1). Attention adds to
// the score of a query and a key a learned number, which depends on the head and on the bucket of
// their distance. Half of the buckets hold one distance each. The others hold ever more of them, on
// a logarithmic scale. In causal attention all buckets are for a query's own key and earlier keys,
// otherwise the second half of them is for later keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "models/program/graph/attributes.h"

namespace meshwright::program {

// Returns the row of the table for a key that is `distance` tokens after its query (negative:
// before it). It computes in fp32, like the code that trained the published models.
inline int relative_bucket(const Attributes& a, std::int64_t distance) {
  const int buckets = a.causal ? a.relative_buckets : a.relative_buckets / 2;
  const int first = !a.causal && distance > 0 ? buckets : 0;
  const std::int64_t away = a.causal ? std::max<std::int64_t>(-distance, 0) : std::abs(distance);
  const int exact = buckets / 2;
  if (away < exact) return first + static_cast<int>(away);
  if (away >= a.relative_distance) return first + buckets - 1;
  const float ratio = std::log(static_cast<float>(away) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(double(a.relative_distance) / exact));
  const int more = static_cast<int>(ratio * static_cast<float>(buckets - exact));
  return first + std::min(exact + more, buckets - 1);
}

}  // namespace meshwright::program
