// What the build makes of the files that are part of the program.
#pragma once

#include <span>
#include <string_view>

namespace meshwright {

struct BuiltInFile {
  std::string_view name, text;  // "models/zoo/gpt2.json"
};
std::span<const BuiltInFile> built_in_files();

}  // namespace meshwright
