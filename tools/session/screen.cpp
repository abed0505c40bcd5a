#include "tools/session/screen.h"

#include <algorithm>
#include <array>

namespace meshwright::session {

namespace {

std::size_t& columns_now() {
  static std::size_t columns = usual_columns;
  return columns;
}

constexpr auto none = std::string_view::npos;

bool is_command(std::string_view line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first != none && line.substr(first).starts_with("meshwright ");
}

// Returns the column at which the rest of a broken line begins.
std::size_t indent_of(std::string_view line, std::size_t hanging) {
  constexpr std::size_t widest_label = usual_columns / 2 + 4;
  const std::size_t first = line.find_first_not_of(' ');
  if (is_command(line)) return first + 4;
  const std::size_t gap = line.find("  ", first);
  const std::size_t text = gap == none ? none : line.find_first_not_of(' ', gap);
  if (text != none && text <= widest_label) return text;
  return first == 0 ? hanging : first;
}

// Returns the byte at which the character of column `column` begins, or the line's length.
std::size_t byte_of(std::string_view line, std::size_t column) {
  std::size_t byte = 0;
  for (; byte < line.size(); ++byte) {
    const bool begins = (static_cast<unsigned char>(line[byte]) & 0xC0) != 0x80;
    if (begins && column-- == 0) return byte;
  }
  return byte;
}

// Returns whether the blank at `at` stands between a number and its unit, which belong together.
bool is_before_unit(std::string_view line, std::size_t at) {
  constexpr std::array<std::string_view, 11> units = {"s",   "ms",  "us", "%", "B",   "KiB",
                                                      "MiB", "GiB", "h",  "M", "days"};
  if (at == 0 || line[at - 1] < '0' || line[at - 1] > '9') return false;
  const std::string_view next = line.substr(at + 1);
  const std::size_t end = std::min(next.find_first_of(" ,;:)"), next.size());
  return std::ranges::find(units, next.substr(0, end)) != units.end();
}

// Returns the index of the blank at which a line of words is broken: the last blank after `least`
// up to `most`, or the first one after `most` if a word is too long, or `none`. The last blank is
// not one between a number and its unit. A gap of two blanks comes first if it leaves more than two
// thirds of the line full.
std::size_t break_of_words(std::string_view line, std::size_t least, std::size_t most) {
  const std::size_t gap = line.rfind("  ", most);
  if (gap != none && gap > least && gap > most * 2 / 3) return line.find_last_not_of(' ', gap) + 1;
  std::size_t blank = line.rfind(' ', most);
  while (blank != none && blank > least && is_before_unit(line, blank))
    blank = line.rfind(' ', blank - 1);
  if (blank != none && blank > least) return blank;
  return line.find(' ', std::max(least, most));
}

// Returns the index of the last blank before an option or `&&` that is at most `most`, or of the
// first one after it, or `none`. Blanks up to `least` and in quoted words do not count.
std::size_t break_of_command(std::string_view line, std::size_t least, std::size_t most) {
  std::size_t found = none;
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != '\0') {
      if (line[i] == quote) quote = '\0';
    } else if (line[i] == '\'' || line[i] == '"') {
      quote = line[i];
    } else if (i > least && line[i] == ' ' &&
               (line.substr(i + 1).starts_with("--") || line.substr(i + 1).starts_with("&&"))) {
      if (i > most && found != none) break;
      found = i;
      if (i > most) break;
    }
  }
  return found;
}

void add_broken(std::string_view line, std::size_t columns, std::size_t hanging,
                std::string& text) {
  if (columns_of(line) <= columns || line.find_first_not_of(' ') == none) {
    text += line;
    return;
  }
  const bool command = is_command(line);
  const std::string indent(indent_of(line, hanging), ' ');
  std::string rest(line);
  while (columns_of(rest) > columns) {
    const std::size_t least = rest.find_first_not_of(' ');
    const std::size_t most = byte_of(rest, command ? columns - 2 : columns);
    const std::size_t at =
        command ? break_of_command(rest, least, most) : break_of_words(rest, least, most);
    const std::size_t next = at == none ? none : rest.find_first_not_of(' ', at);
    if (next == none) break;
    text += rest.substr(0, at) + (command ? " \\\n" : "\n");
    const std::size_t word = std::min(rest.find(' ', next), rest.size()) - next;
    rest =
        (indent.size() + word > columns ? std::string(hanging, ' ') : indent) + rest.substr(next);
  }
  text += rest;
}

}  // namespace

std::size_t screen_columns() { return columns_now(); }

void set_screen_columns(std::size_t columns) { columns_now() = columns; }

std::size_t columns_of(std::string_view line) {
  return static_cast<std::size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string broken_lines(std::string_view text, std::size_t columns, std::size_t hanging) {
  std::string broken;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_broken(text.substr(0, end), columns, hanging, broken);
    if (end < text.size()) broken += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return broken;
}

std::string labelled(std::string_view label, std::string_view text, std::size_t columns) {
  const std::size_t width = columns_of(label);
  std::string all(label);
  for (const char c : broken_lines(text, columns - width, 0)) {
    all += c;
    if (c == '\n') all.append(width, ' ');
  }
  return all;
}

std::string on_screen(std::string_view text) { return broken_lines(text, screen_columns()); }

}  // namespace meshwright::session
