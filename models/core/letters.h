// Reduces names to their letters and digits, so that two spellings of one name compare equal.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the ASCII letters and digits of a name in lower case: "dgxa10040gb" for "DGX A100 40 GB".
inline std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

}  // namespace meshwright::core
