// Reads recipes of Megatron-Bridge and of NeMo 2: functions of Python that return a configuration.
#pragma once

#include <map>
#include <string>

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Returns whether a program has functions that return a ConfigContainer of Megatron-Bridge or a
// run.Partial of NeMo.
bool has_recipes(const std::string& text);

// Returns the settings of one recipe under Megatron-Bridge's names. If a file has several,
// `defines` chooses one by its name (--define recipe=NAME). Throws InputError if it does not.
Settings read_recipe(const std::string& text, const std::string& file,
                     const std::map<std::string, std::string>& defines);

}  // namespace meshwright::interop
