#include "tools/commands/python_package.h"

#include <cstdlib>
#include <filesystem>

namespace meshwright::tools {

void search_package(const std::string& program) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const char* beside : {"python", "../../tools/python"}) {
    const fs::path folder = fs::path(program).parent_path() / beside;
    if (!fs::exists(folder / "meshwright/torch", error)) continue;
    const std::string found = fs::canonical(folder, error).string();
    const char* before = std::getenv("PYTHONPATH");
    const std::string path =
        before == nullptr || *before == '\0' ? found : found + ":" + std::string(before);
    setenv("PYTHONPATH", path.c_str(), 1);
    return;
  }
}

}  // namespace meshwright::tools
