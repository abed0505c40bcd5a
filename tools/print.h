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

// Prints the text of fmt::format without the control characters that its arguments may hold, in
// lines that fit the screen (session/screen.h). On standard error that is so on a terminal alone:
// a program that reads messages finds each in a line.
template <class... Arguments>
void print_to(std::FILE* to, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = printable(fmt::format(format, std::forward<Arguments>(arguments)...));
  const bool is_read = to == stdout || isatty(fileno(to)) != 0;
  const std::string lines = is_read ? session::on_screen(text) : text;
  std::fwrite(lines.data(), 1, lines.size(), to);
}

// Prints text as it is, such as JSON in ASCII.
inline void print_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace meshwright::tools
