// Computes with numbers from settings without overflow, because a product of valid numbers may
// exceed 64 bits. Results are clamped to -most_amount to most_amount.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace meshwright::interop {

constexpr std::int64_t most_amount = std::int64_t{1} << 53;  // doubles are exact up to here

// Returns `value` rounded towards 0 and clamped to -most_amount to most_amount, or 0 for NaN.
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

}  // namespace meshwright::interop
