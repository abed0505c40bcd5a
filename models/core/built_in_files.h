// Files of the source tree that the build embeds in the program.
#pragma once

#include <span>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

struct BuiltInFile {
  std::string_view name, text;  // "models/zoo/gpt2.json"
};
std::span<const BuiltInFile> built_in_files();

}  // namespace meshwright::core
