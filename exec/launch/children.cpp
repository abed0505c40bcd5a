#include "exec/launch/children.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace meshwright::exec {

namespace {

namespace fs = std::filesystem;

// Returns whether a process has ended, by its state in /proc: Z, or no such file. The state follows
// the process's name, which is in parentheses and may contain parentheses.
bool has_ended(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  std::array<char, 256> line{};
  const ssize_t count = read(file, line.data(), line.size());
  close(file);
  const std::string_view text(line.data(), std::max<ssize_t>(count, 0));
  const std::size_t name = text.rfind(')');
  return name == std::string_view::npos || text.substr(name, 3) == ") Z";
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

}  // namespace meshwright::exec
