// Writes outputs of commands: whole files, as models/core/output_file.h says.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace meshwright {

// Commands call it at their beginning for what they write at the end of long work. Throws
// InputError, whose message begins with `where`, if output_place() refuses `path` or if it is one
// of `inputs`. Touches nothing. An empty path is good.
void check_writable(const std::string& where, const std::string& path,
                    std::span<const std::string> inputs = {});

// Commands call it for what another process of theirs writes. That process has the standard files
// of this one, but not what a shell opened for it. Throws InputError if `path` names such a file.
void check_named(const std::string& where, const std::string& path);

// Throws RunError if `path` cannot be written, and then leaves what was there.
void write_file(const std::string& path, std::string_view content);

}  // namespace meshwright
