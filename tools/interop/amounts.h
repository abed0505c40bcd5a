// Arithmetic of numbers that settings say. Each number alone may be right and what is made of them
// beyond any job; the reader of jobs refuses it then, and until then nothing overflows.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace meshwright {

constexpr std::int64_t most_amount = std::int64_t{1} << 53;  // as a double holds whole numbers

// Returns the nearest amount of at most `most_amount` towards 0, and 0 for no number.
inline std::int64_t amount_of(double value) {
  if (std::isnan(value)) return 0;
  const auto most = static_cast<double>(most_amount);
  return static_cast<std::int64_t>(value > most ? most : value < -most ? -most : value);
}

inline std::int64_t product(std::initializer_list<std::int64_t> factors) {
  double all = 1;
  for (const std::int64_t factor : factors) all *= static_cast<double>(factor);
  return amount_of(all);
}

}  // namespace meshwright
