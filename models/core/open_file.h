// Opens files for reading, and checks that reading them will end.
#pragma once

#include <string>

#include "models/core/rooms.h"

namespace meshwright::core {

// Opens `path` for reading, in non-blocking mode, so that opening a pipe does not wait for its
// writer. Returns the descriptor, or -1 with errno set. A run may need thousands of open files, but
// the usual limit is 1,024. So if the limit is reached, this function raises the limit of the
// process as far as the system allows, and tries once more.
int open_to_read(const std::string& path);

// Returns whether `path` names a file that a process has open: /dev/stdin, or a path in /dev/fd/ or
// /proc/.../fd/. A shell puts such a path in place of <(command). Reading it may wait for a writer
// that the user chose.
bool names_open_file(const std::string& path);

// Throws InputError if `path` does not exist or is a folder. Also throws it for a pipe, a device or
// a socket, because reading it might never end, unless names_open_file() returns true for `path`.
void check_readable(const std::string& path);

}  // namespace meshwright::core
