// Opening a file to read it at places.
#pragma once

#include <string>

namespace meshwright {

// A descriptor, or -1 with errno. It does not wait: a pipe has no end until somebody writes it. A
// run may have thousands of shards or files of data open, and the usual limit is 1,024: where the
// system lets it, this process gives itself more.
int open_to_read(const std::string& path);

}  // namespace meshwright
