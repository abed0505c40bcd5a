// Gives access to the files of the source tree that the build embeds in the program.
#pragma once

#include <span>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

struct BuiltInFile {
  // The path in the source tree, such as "models/zoo/gpt2.json", and the content.
  std::string_view name, text;
};
std::span<const BuiltInFile> built_in_files();

}  // namespace meshwright::core
