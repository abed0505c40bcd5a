#include "models/core/printable.h"

#include <array>
#include <cstdio>

namespace meshwright::core {

namespace {

std::string escaped(unsigned char c) {
  std::array<char, 5> text{};
  std::snprintf(text.data(), text.size(), "\\x%02x", c);
  return text.data();
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    const bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F
    if (c1)
      result += escaped(static_cast<unsigned char>(text[++i]));
    else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
      result += escaped(c);
    else
      result += text[i];
  }
  return result;
}

}  // namespace meshwright::core
