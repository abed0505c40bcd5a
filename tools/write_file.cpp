#include "tools/write_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "models/core/error.h"

namespace meshwright {

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
  if (error) throw RunError(path + ": cannot be written: " + error.message());
}

}  // namespace meshwright
