// Computes a hash of text that is equal on every computer. Among others, it makes keys of random
// numbers.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the 64-bit FNV-1a hash of `text`.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3;
  }
  return hash;
}

}  // namespace meshwright::core
