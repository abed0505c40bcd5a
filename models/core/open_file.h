// Opens files to read them. Opening never waits for a process that writes them.
#pragma once

#include <string>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns a descriptor to read `path` with, or -1 with errno. It does not wait for the writer of a
// pipe. A run may have thousands of shards or files of data open, but the usual limit is 1,024. So
// at the limit, this process raises its own limit as far as the system allows.
int open_to_read(const std::string& path);

// Returns whether `path` names a file that this process was started with: standard input, or what a
// shell puts in place of <(command). Whoever started the process also writes to it, so reading it
// may wait.
bool names_open_file(const std::string& path);

// Throws InputError unless `path` is a regular file or names_open_file(), because to read another
// pipe, a device or a socket could take for ever. Every reader that opens `path` by itself calls it
// first.
void check_readable(const std::string& path);

}  // namespace meshwright::core
