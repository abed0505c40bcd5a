#include "models/core/utf8.h"

namespace meshwright::core {

std::size_t utf8_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

namespace {

bool continues(std::string_view text, std::size_t at, std::size_t length) {
  for (std::size_t i = 1; i < length; ++i)
    if (at + i >= text.size() || (static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80)
      return false;
  return true;
}

}  // namespace

std::size_t valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(first);
    if (length == 0 || !continues(text, at, length)) return at;
    const auto second = static_cast<unsigned char>(length > 1 ? text[at + 1] : '\0');
    // Rejects encodings that are longer than needed, surrogates, and values beyond U+10FFFF.
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
      return at;
    at += length;
  }
  return text.size();
}

std::string as_utf8(std::string_view text) {
  std::string result;
  while (true) {
    const std::size_t valid = valid_utf8(text);
    result += text.substr(0, valid);
    if (valid == text.size()) return result;
    result += "\xEF\xBF\xBD";
    text.remove_prefix(valid + 1);
  }
}

}  // namespace meshwright::core
