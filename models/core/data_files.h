// Files that the program needs wherever it runs, the profiles of machines and the models of the
// zoo, are part of it. Paths name them as they name files on disk:
// "built-in:/models/zoo/gpt2.json".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

inline constexpr std::string_view built_in = "built-in:/";

// The content; nothing where `path` names no file of these.
std::optional<std::string_view> built_in_file(const std::string& path);

// While one of these lives, read_file of this thread finds its texts under these paths: a caller's
// own, which lie in no file.
class GivenFiles {
 public:
  explicit GivenFiles(std::map<std::string, std::string> texts);
  ~GivenFiles();
  GivenFiles(const GivenFiles&) = delete;
  GivenFiles& operator=(const GivenFiles&) = delete;
};
std::optional<std::string> given_file(const std::string& path);

// Both of what is part of the program and of what is on disk.
bool is_data_file(const std::string& path);
// Names of a folder's JSON files without ".json", sorted; nothing where there is no such folder.
std::optional<std::vector<std::string>> json_names(const std::string& folder);

}  // namespace meshwright
