// Recognizes the framework to which the settings of a file belong.
#pragma once

#include <string>

#include "models/compiler/frameworks/framework.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Returns the framework that the names of the settings, or else the program that they start, are
// typical of. `file` is for messages. Throws InputError if there is none, or if the settings are
// those of a framework that import does not read.
Framework recognize(const std::string& file, const Settings& settings);

}  // namespace meshwright::interop
