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

// Calls visit(child) for each child of each thread.
template <typename Visit>
void for_each_child(pid_t process, const Visit& visit) {
  std::error_code error;
  const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (fs::directory_iterator it(tasks, error), end; !error && it != end; it.increment(error)) {
    std::ifstream file(it->path() / "children");
    for (pid_t child = 0; file >> child;) visit(child);
  }
}

}  // namespace

Children children_of(pid_t process) {
  Children children;
  for_each_child(process,
                 [&](pid_t child) { ++(has_ended(child) ? children.ended : children.living); });
  return children;
}

std::vector<pid_t> descendants_of(pid_t process) {
  std::vector<pid_t> all;
  const auto add = [&](pid_t child) {
    if (!has_ended(child)) all.push_back(child);
  };
  for_each_child(process, add);
  for (std::size_t i = 0; i < all.size(); ++i) for_each_child(pid_t{all[i]}, add);
  return all;
}

}  // namespace meshwright
