// Writes outputs of commands: whole files, as models/core/output_file.h says.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace meshwright::session {

// Checks an output before any work. Commands call it at their beginning for what they write at the
// end of long work. Throws InputError, whose message begins with `where`, if output_place() refuses
// `path` or if it is one of `inputs`. Writes nothing. Accepts an empty path.
void check_writable(const std::string& where, const std::string& path,
                    std::span<const std::string> inputs = {});

// Throws InputError if `path` names a file that is open in this process only, such as one that a
// shell opened for it. Commands call it for files that another process of theirs writes: that
// process inherits only standard input, output and error. Accepts an empty path.
void check_named(const std::string& where, const std::string& path);

// Writes a whole file. Throws RunError if `path` cannot be written, and then leaves the old file
// unchanged.
void write_file(const std::string& path, std::string_view content);

}  // namespace meshwright::session
