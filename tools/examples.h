// An example of each command, which its help ends with.
#pragma once

#include <string_view>

namespace meshwright::tools {

// Returns a command line that shows what the command called `name` is for. Its files are those of
// the repository, or ones that another example writes.
std::string_view example_of(std::string_view name);

}  // namespace meshwright::tools
