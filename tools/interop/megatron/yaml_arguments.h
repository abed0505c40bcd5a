// Reads YAML files that hold arguments of Megatron-LM: the recipes of its own functional tests and
// of Megatron-MoE-ModelZoo (`MODEL_ARGS`), and FlagScale's experiments (`system`, `model`, `data`).
#pragma once

#include <map>
#include <string>

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Returns the settings of such a file as a command line, and those of any other file as they are.
// `defines` gives variables such as ${TP} their values. Throws InputError for an experiment of
// FlagScale that is no training with Megatron, or whose own files are missing.
Settings with_arguments_of_yaml(Settings settings, const std::string& file,
                                const std::map<std::string, std::string>& defines);

}  // namespace meshwright::interop
