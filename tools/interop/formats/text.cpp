#include "tools/interop/formats/text.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/core/utf8.h"

namespace meshwright::interop {

void check_text(const std::string& text, const std::string& file) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(file + ": is empty; a file of settings is needed");
  const std::size_t end = std::min(valid_utf8(text), text.find('\0'));
  if (end < text.size())
    throw InputError(
        place_at(file, 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end),
                                      '\n')) +
        ": is no text in UTF-8; a file of settings is needed");
}

std::string place_at(const std::string& file, std::int64_t line) {
  return file + ":" + std::to_string(line);
}

}  // namespace meshwright::interop
