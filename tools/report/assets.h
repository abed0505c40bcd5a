// Returns the files of the pages, which are built into the program, so that no page is read from
// disk.
#pragma once

#include <optional>

#include "models/core/built_in_files.h"

namespace meshwright::tools {

std::span<const BuiltInFile> asset_files();

inline std::optional<std::string_view> asset(std::string_view name) {  // such as "style.css"
  for (const BuiltInFile& each : asset_files())
    if (each.name == name) return each.text;
  return std::nullopt;
}

}  // namespace meshwright::tools
