#include "exec/launch/children.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace meshwright {

namespace {

namespace fs = std::filesystem;

// The state follows the name, which is in parentheses and may hold some itself.
bool has_ended(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t name = text.rfind(')');
  return name == std::string::npos || text.compare(name, 3, ") Z") == 0;
}

}  // namespace

Children children_of(pid_t process) {
  Children children;
  std::error_code error;
  const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (fs::directory_iterator it(tasks, error), end; !error && it != end; it.increment(error)) {
    std::ifstream file(it->path() / "children");
    for (pid_t child = 0; file >> child;) ++(has_ended(child) ? children.ended : children.living);
  }
  return children;
}

}  // namespace meshwright
