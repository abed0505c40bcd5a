// Finds the Python package of meshwright that belongs to this program.
#pragma once

#include <string>

namespace meshwright::tools {

// Puts the package that belongs to `program` first on PYTHONPATH: the one of its build, which can
// train, or else that of the source tree in which it was built. For an installed program there is
// neither, and Python imports the package that pip installed.
void search_package(const std::string& program);

}  // namespace meshwright::tools
