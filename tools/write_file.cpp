#include "tools/write_file.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "models/core/error.h"

namespace meshwright {

void check_writable(const std::string& where, const std::string& path,
                    std::span<const std::string> inputs) {
  if (path.empty()) return;
  namespace fs = std::filesystem;
  std::error_code error;
  for (const std::string& input : inputs)
    if (fs::equivalent(path, input, error))
      throw InputError(where + " " + path + ": is what this command reads; name another file");
  if (fs::is_directory(path, error))
    throw InputError(where + " " + path + ": is a folder; name a file in it");
  fs::path folder = fs::path(path).parent_path();
  while (!folder.empty() && !fs::exists(folder, error)) folder = folder.parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error) || access(folder.c_str(), W_OK | X_OK) != 0)
    throw InputError(where + " " + path + ": nothing can be written in " + folder.string());
}

void write_file(const std::string& path, std::string_view content) {
  const std::filesystem::path place(path);
  std::error_code error;
  if (place.has_parent_path()) std::filesystem::create_directories(place.parent_path(), error);
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.flush();
    if (!file) {
      std::remove(part.c_str());
      throw RunError(path + ": cannot be written");
    }
  }
  std::filesystem::rename(part, place, error);
  if (!error) return;
  std::remove(part.c_str());
  throw RunError(path + ": cannot be written: " + error.message());
}

}  // namespace meshwright
