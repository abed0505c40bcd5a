// Ids, ranks and counts are signed integers; containers are indexed by std::size_t.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/core/rooms.h"

namespace meshwright::core {

constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace meshwright::core
