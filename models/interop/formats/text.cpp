#include "models/interop/formats/text.h"

#include "models/core/error.h"

namespace meshwright {

namespace {

// How many bytes the character at `at` has; 0: none of UTF-8's.
std::size_t length_at(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (byte(at + i) < 0x80 || byte(at + i) > 0xbf) return 0;
  return first == 0 ? 0 : length;
}

}  // namespace

void check_text(const std::string& text, const std::string& file) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(file + ": is empty; a file of settings is needed");
  std::int64_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = length_at(text, at);
    if (length == 0)
      throw InputError(place_at(file, line) +
                       ": is no text in UTF-8; a file of settings is needed");
    if (text[at] == '\n') ++line;
    at += length;
  }
}

std::string place_at(const std::string& file, std::int64_t line) {
  return file + ":" + std::to_string(line);
}

}  // namespace meshwright
