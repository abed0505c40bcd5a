// Checks whether bytes are text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meshwright {

// Returns how many bytes the UTF-8 character has that begins with `first`, or 0 if none does.
std::size_t utf8_length(unsigned char first);

// Returns the byte at which `text` stops being UTF-8, or its size if all of it is.
std::size_t valid_utf8(std::string_view text);

// Returns `text` with U+FFFD in place of each byte that is no part of a UTF-8 character. Names of
// files may hold any byte, and what is written is text.
std::string as_utf8(std::string_view text);

}  // namespace meshwright
