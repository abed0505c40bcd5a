// Opens files to read them, without ever waiting for a process that writes them.
#pragma once

#include <string>

namespace meshwright {

// Returns a descriptor, or -1 with errno. It does not wait: a pipe has no end until somebody writes
// it. A run may have thousands of shards or files of data open, and the usual limit is 1,024: where
// the system lets it, this process gives itself more.
int open_to_read(const std::string& path);

// Returns whether `path` names a file that this process was started with: standard input, or what a
// shell puts in place of <(command). Whoever started the process also writes to it, so reading it
// may wait.
bool names_open_file(const std::string& path);

// Every reader that opens `path` by itself calls this first. Throws InputError unless `path` is a
// regular file or names_open_file(): to read a pipe, a device or a socket could take for ever.
void check_readable(const std::string& path);

}  // namespace meshwright
