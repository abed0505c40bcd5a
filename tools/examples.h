// Has an example of each command. The help of a command ends with it.
#pragma once

#include <string_view>

namespace meshwright::tools {

// Returns a command line that shows what the command called `name` is for, or "" if there is none.
// Some of its files are in the repository. The others stand for files of the user.
std::string_view example_of(std::string_view name);

}  // namespace meshwright::tools
