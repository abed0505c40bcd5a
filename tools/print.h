// Prints text that may contain parts of a job or a data file.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "models/core/printable.h"

namespace meshwright::tools {

// Prints the text of fmt::format without the control characters that its arguments may hold.
template <class... Arguments>
void print_to(std::FILE* to, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = printable(fmt::format(format, std::forward<Arguments>(arguments)...));
  std::fwrite(text.data(), 1, text.size(), to);
}

// Prints text as it is, such as JSON in ASCII.
inline void print_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace meshwright::tools
