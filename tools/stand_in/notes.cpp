#include "tools/stand_in/notes.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

namespace meshwright::stand_in {

namespace {

const char* file() {
  static const char* const path = std::getenv("MESHWRIGHT_STAND_IN_NOTES");
  return path == nullptr || *path == '\0' ? nullptr : path;
}

}  // namespace

bool is_rehearsed() { return file() != nullptr; }

void note(const std::string& line) {
  const std::string text = line + "\n";
  // Asks the kernel, because this library replaces the functions that open files.
  const long to =
      syscall(SYS_openat, AT_FDCWD, file(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (to < 0) return;
  [[maybe_unused]] const ssize_t written = write(static_cast<int>(to), text.data(), text.size());
  close(static_cast<int>(to));
}

}  // namespace meshwright::stand_in
