// Prints text that may contain parts of a job or a data file.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "models/core/printable.h"
#include "tools/session/screen.h"

namespace meshwright::tools {

// Prints the text of fmt::format. Control characters are escaped, except for line feeds and tabs.
// Lines are wrapped to the screen's width (session/screen.h) on standard output, and on any other
// stream if it is a terminal. A program that reads standard error thus gets messages as they
// are.
template <class... Arguments>
void print_to(std::FILE* to, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = printable(fmt::format(format, std::forward<Arguments>(arguments)...));
  const bool is_read = to == stdout || isatty(fileno(to)) != 0;
  const std::string lines = is_read ? session::on_screen(text) : text;
  std::fwrite(lines.data(), 1, lines.size(), to);
}

// Prints text, such as JSON in ASCII, unchanged on standard output.
inline void print_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace meshwright::tools
