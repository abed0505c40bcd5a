#include "exec/core/philox.h"

#include <cmath>
#include <numbers>

#include "models/core/hash.h"

namespace meshwright::exec {

PhiloxStream::PhiloxStream(std::uint64_t seed, std::string_view purpose)
    : purpose_(hash_of(purpose)),
      key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

std::array<double, 4> PhiloxStream::normal_block(std::uint64_t i) const {
  const PhiloxCounter bits = block(i);
  std::array<double, 4> result{};
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    // Both are in (0, 1) and never 0, because the logarithm of 0 is infinite.
    const double u = (bits[pair] + 0.5) * 0x1p-32, v = (bits[pair + 1] + 0.5) * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
    result[pair] = radius * std::cos(angle);
    result[pair + 1] = radius * std::sin(angle);
  }
  return result;
}

}  // namespace meshwright::exec
