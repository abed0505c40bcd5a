// Knows options of other programs, so that a message can name the right one.
#pragma once

#include <string>
#include <vector>

namespace meshwright::tools {

// Returns, in quotes, the option of `known` that is meant by one of another program, or the key
// that
// --set takes for it. Empty if it is none.
std::string option_meant(const std::string& option, const std::vector<std::string>& known);

}  // namespace meshwright::tools
