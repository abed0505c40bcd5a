// Compares names as people write them: in any case, with any signs between words.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the letters and digits of a name in small letters: "DGX A100 40 GB" is "dgxa10040gb".
inline std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

}  // namespace meshwright::core
