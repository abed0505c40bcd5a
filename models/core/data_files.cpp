#include "models/core/data_files.h"

#include <algorithm>
#include <filesystem>

#include "models/core/built_in_files.h"

namespace meshwright::core {

namespace {

namespace fs = std::filesystem;

// Returns the normalized name of a built-in file, such as "models/zoo/gpt2.json" for the path
// "built-in:/models/zoo/gpt2.json". Returns nothing if `path` does not begin with "built-in:/".
std::optional<std::string> built_in_name(const std::string& path) {
  if (!path.starts_with(built_in)) return std::nullopt;
  return fs::path(path.substr(built_in.size())).lexically_normal().string();
}

void add_json_name(std::vector<std::string>& names, const fs::path& file) {
  if (file.extension() == ".json") names.push_back(file.stem().string());
}

}  // namespace

std::optional<std::string_view> built_in_file(const std::string& path) {
  const auto name = built_in_name(path);
  if (!name) return std::nullopt;
  const auto found = std::ranges::find(built_in_files(), *name, &BuiltInFile::name);
  if (found == built_in_files().end()) return std::nullopt;
  return found->text;
}

bool is_data_file(const std::string& path) {
  if (path.starts_with(built_in)) return built_in_file(path).has_value();
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::optional<std::vector<std::string>> json_names(const std::string& folder) {
  std::vector<std::string> names;
  if (const auto name = built_in_name(folder)) {
    const fs::path wanted = fs::path(*name + "/").parent_path();  // "a/" is "a"
    for (const BuiltInFile& file : built_in_files())
      if (const fs::path path(file.name); path.parent_path() == wanted) add_json_name(names, path);
    if (names.empty()) return std::nullopt;
  } else {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      add_json_name(names, entry.path());
    if (error) return std::nullopt;
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace meshwright::core
