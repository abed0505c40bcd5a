// Recognizes the framework whose settings a file holds.
#pragma once

#include <string>

#include "models/compiler/frameworks/framework.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Returns the framework that the names of the settings belong to. `file` is for messages. Throws
// InputError, which names --format, if no name is typical of a framework.
Framework recognize(const std::string& file, const Settings& settings);

}  // namespace meshwright::interop
