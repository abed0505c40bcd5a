// Returns the lines that `meshwright --version` prints.
#pragma once

#include <string_view>

namespace meshwright::tools {

std::string_view version_text();  // begins with "meshwright 0.2.0"

}  // namespace meshwright::tools
