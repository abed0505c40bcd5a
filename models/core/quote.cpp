#include "models/core/quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "models/core/error.h"
#include "models/core/printable.h"
#include "models/core/utf8.h"

namespace meshwright::core {

namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_plain_in_shell(char c) {
  return is_letter_or_digit(c) || std::string_view("-_./:=,+@%^").find(c) != std::string_view::npos;
}

// Returns the code point of the UTF-8 character `bytes`.
std::uint32_t code_point(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (bytes.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0x7FU >> bytes.size());
  for (std::size_t i = 1; i < bytes.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

}  // namespace

bool is_one_line(std::string_view text) {
  return text.find_first_of("\n\t") == std::string_view::npos && printable(text) == text;
}

std::string shell_word(std::string_view text) {
  if (text.find('\0') != std::string_view::npos)
    throw InputError("'" + std::string(text) +
                     "' contains a null byte, which no word of a shell can hold; leave it out");
  if (!text.empty() && std::ranges::all_of(text, is_plain_in_shell)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string plain_name(std::string_view text) {
  constexpr std::size_t most = 50;
  std::string name;
  for (const char c : text) {
    if (is_letter_or_digit(c))
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
    if (name.size() == most) break;
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  if (name.empty()) return "train";
  if (std::isdigit(static_cast<unsigned char>(name.front())) != 0) name.insert(0, "train-");
  return name;
}

std::string double_quoted(std::string_view text) {
  const std::string valid = as_utf8(text);
  std::string quoted = "\"";
  for (std::size_t at = 0; at < valid.size();) {
    const std::size_t length = utf8_length(static_cast<unsigned char>(valid[at]));
    const std::uint32_t code = code_point(std::string_view(valid).substr(at, length));
    at += length;
    if (code == '"' || code == '\\')
      quoted += {'\\', static_cast<char>(code)};
    else if (code == '\n')
      quoted += "\\n";
    else if (code >= 0x20 && code < 0x7F)
      quoted += static_cast<char>(code);
    else
      quoted += code <= 0xFFFF ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
  }
  return quoted + "\"";
}

std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : printable(as_utf8(text))) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

// Every `<` can be escaped, because in JSON it can only be part of a string.
std::string json_in_html(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace meshwright::core
