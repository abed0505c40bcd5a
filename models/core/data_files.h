// Reads data files from the disk or from the program itself. The JSON files of hwprofiles/ and
// models/zoo/ are built into the program. Paths name them like files on disk:
// "built-in:/models/zoo/gpt2.json".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

inline constexpr std::string_view built_in = "built-in:/";

// Returns the content of a built-in file, or nothing if `path` does not name one.
std::optional<std::string_view> built_in_file(const std::string& path);

// Returns whether `path` names a regular file, built in or on disk.
bool is_data_file(const std::string& path);
// Returns the names of a folder's entries with the extension .json, without it, sorted. Returns
// nothing if the folder cannot be listed. A built-in folder without such files counts as missing.
std::optional<std::vector<std::string>> json_names(const std::string& folder);

}  // namespace meshwright::core
