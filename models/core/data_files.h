// Files that the program needs wherever it runs are built into it: the profiles of machines and the
// models of the zoo. Paths name them like files on disk: "built-in:/models/zoo/gpt2.json".
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
// Returns the names of a folder's JSON files without ".json", sorted, or nothing if there is no
// such folder. A built-in folder without JSON files counts as missing.
std::optional<std::vector<std::string>> json_names(const std::string& folder);

}  // namespace meshwright::core
