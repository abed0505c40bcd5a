// Which framework's settings a file holds, by its name and what is in it.
#pragma once

#include <optional>
#include <string>

#include "models/compiler/frameworks/framework.h"
#include "tools/interop/settings.h"

namespace meshwright {

// `file` ends as its format says: .sh and .txt (arguments), .yaml or .yml, .toml, .json. What is
// none of these, or of no framework: InputError that names --format.
Framework recognize(const std::string& file, const Settings& settings);

}  // namespace meshwright
