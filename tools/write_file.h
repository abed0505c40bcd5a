// Writes a whole file or throws: first beside its place, then renamed, so that a fault leaves the
// old one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace meshwright {

// For what is written at the end of long work: an InputError now, beginning with `where`, when
// `path` could not be written then, or is one of `inputs`. Touches nothing; an empty path is good.
void check_writable(const std::string& where, const std::string& path,
                    std::span<const std::string> inputs = {});

void write_file(const std::string& path, std::string_view content);  // RunError

}  // namespace meshwright
