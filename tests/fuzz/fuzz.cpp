#include "tests/fuzz/fuzz.h"

#include <fstream>

#include "tests/test_folder.h"

namespace meshwright::tests::fuzz {

std::string input_file(const std::string& name, std::string_view bytes) {
  static const TestFolder folder;
  const std::string path = folder.file(name);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  MESHWRIGHT_CHECK(file.good(), "there is room for inputs");
  return path;
}

}  // namespace meshwright::tests::fuzz
