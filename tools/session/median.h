// Returns the median of `values`. For an even number of values it is the larger of the two in the
// middle, and for no values it is 0.
#pragma once

#include <algorithm>
#include <vector>

namespace meshwright::session {

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace meshwright::session
