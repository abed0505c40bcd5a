// Checks whether bytes are UTF-8, and replaces those that are not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns how many bytes a UTF-8 character has whose first byte is `first`, or 0 if no character
// begins with this byte.
std::size_t utf8_length(unsigned char first);

// Returns the length, in bytes, of the longest beginning of `text` that is valid UTF-8.
std::size_t valid_utf8(std::string_view text);

// Returns `text` with U+FFFD in place of each byte that is not part of a UTF-8 character. It is for
// text from outside that may hold any byte, such as the name of a file.
std::string as_utf8(std::string_view text);

}  // namespace meshwright::core
