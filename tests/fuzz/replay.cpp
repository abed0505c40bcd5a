// replay FOLDER: runs a fuzz target on every file of a folder, in builds without libFuzzer.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "models/core/fields.h"
#include "tests/fuzz/fuzz.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);  // the last one said is the one that fails
    const std::string bytes = meshwright::core::read_file(file);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
