#include "tools/serve/request_head.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace meshwright::tools {

namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::size_t most_digits = 15;

struct Header {
  std::string name;  // in lower case
  std::string_view value;
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return lower(c); });
  return result;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_of_token(char c) {
  constexpr std::string_view others = "!#$%&'*+-.^_`|~";
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') ||
         others.find(c) != std::string_view::npos;
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// Returns the lines of a head without their ends and without the empty line at the end. Returns
// nothing if a line does not end with CR LF, a line has control characters, the first line is
// empty, or the empty line at the end is missing.
std::optional<std::vector<std::string_view>> lines_of(std::string_view head) {
  std::vector<std::string_view> lines;
  while (!head.empty()) {
    const std::size_t end = head.find(line_end);
    if (end == std::string_view::npos) return std::nullopt;
    lines.push_back(head.substr(0, end));
    if (std::ranges::any_of(lines.back(), is_control)) return std::nullopt;
    head.remove_prefix(end + line_end.size());
  }
  if (lines.size() < 2 || lines.front().empty() || !lines.back().empty()) return std::nullopt;
  lines.pop_back();
  return lines;
}

std::optional<Header> header_of(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const std::string_view name = line.substr(0, colon);
  if (!std::ranges::all_of(name, is_of_token)) return std::nullopt;
  return Header{lower(name), trimmed(line.substr(colon + 1))};
}

std::string fault_of_length(std::span<const Header> headers, bool has_chunks) {
  std::vector<std::string_view> lengths, encodings;
  for (const Header& header : headers) {
    if (header.name == "content-length") lengths.push_back(header.value);
    if (header.name == "transfer-encoding") encodings.push_back(header.value);
  }
  if (lengths.size() + encodings.size() > 1)
    return "the length of the body is given more than once: Content-Length, Transfer-Encoding";
  if (!lengths.empty() && (lengths[0].empty() || lengths[0].size() > most_digits ||
                           !std::ranges::all_of(lengths[0], is_digit)))
    return "Content-Length is not a number of bytes";
  if (!encodings.empty() && (lower(encodings[0]) != "chunked" || !has_chunks))
    return "the only Transfer-Encoding is chunked, of HTTP/1.1";
  return "";
}

}  // namespace

std::string fault_of_head(std::string_view head) {
  const auto lines = lines_of(head);
  if (!lines)
    return "this is no HTTP request: a line has control characters, or no CR LF at its end";
  std::vector<Header> headers;
  for (const std::string_view line : std::span(*lines).subspan(1)) {
    const auto header = header_of(line);
    if (!header) return "this is no HTTP request: a header is not NAME: VALUE on one line";
    headers.push_back(*header);
  }
  return fault_of_length(headers, lines->front().ends_with(" HTTP/1.1"));
}

std::string without_ranges(std::string_view head) {
  std::string rest;
  const auto lines = lines_of(head).value();
  for (const std::string_view& line : lines) {
    const auto header = &line == &lines.front() ? std::nullopt : header_of(line);
    if (header && (header->name == "range" || header->name == "if-range")) continue;
    rest.append(line).append(line_end);
  }
  return rest.append(line_end);
}

}  // namespace meshwright::tools
