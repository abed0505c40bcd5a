// Compares matmuls with sums in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/catch.h"
#include "tests/one_in.h"

namespace meshwright::tests {

// Checks `found`, [m, n]. term(r, c, i) is the i-th of the k terms of element r, c. Every row is
// checked, or one in 5.
template <typename Term>
void check_sums(const std::vector<float>& found, std::int64_t m, std::int64_t n, std::int64_t k,
                const Term& term) {
  double worst = 0, largest = 0;
  for (std::int64_t r = 0; r < m; r += one_in(5))
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += term(r, c, i);
      largest = std::max(largest, std::fabs(sum));
      const double got = static_cast<double>(found[static_cast<std::size_t>(r * n + c)]);
      worst = std::max(worst, std::fabs(got - sum));
    }
  CHECK(worst <= 1e-5 * largest);  // an f32 sum of k terms
}

}  // namespace meshwright::tests
