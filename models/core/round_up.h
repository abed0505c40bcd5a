// Rounds sizes up.
#pragma once

#include <cstdint>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the least multiple of `multiple` that is at least `value`. `value` is at least 0, and
// `multiple` at least 1.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace meshwright::core
