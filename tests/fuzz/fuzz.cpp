#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace meshwright::fuzz {

namespace {

class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "meshwright-fuzz-XXXXXX").string()) {
    MESHWRIGHT_CHECK(mkdtemp(path_.data()) != nullptr, "there is room for inputs");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::string input_file(const std::string& name, std::string_view bytes) {
  static const Folder folder;
  const std::string path = folder.path() + "/" + name;
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  MESHWRIGHT_CHECK(file.good(), "there is room for inputs");
  return path;
}

}  // namespace meshwright::fuzz
