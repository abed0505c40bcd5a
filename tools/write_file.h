// Writes a whole file or throws: first beside its place, then renamed, so that a fault leaves the
// old one.
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

void write_file(const std::string& path, std::string_view content);  // RunError

}  // namespace meshwright
