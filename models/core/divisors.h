// Lists the divisors of a batch or of a number of ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the divisors of `number`, at least 1, in ascending order. They must fit into an int.
inline std::vector<int> divisors(std::int64_t number) {
  std::vector<int> found;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    found.push_back(static_cast<int>(d));
    if (d * d != number) found.push_back(static_cast<int>(number / d));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace meshwright::core
