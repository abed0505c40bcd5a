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

// Returns the byte at which `text` stops being UTF-8, or its size if all of it is.
std::size_t valid_utf8(std::string_view text);

// Returns `text` with U+FFFD in place of each byte that is not part of a UTF-8 character. Text from
// outside, such as the name of a file, may hold any byte, and goes through it before it is written.
std::string as_utf8(std::string_view text);

}  // namespace meshwright::core
