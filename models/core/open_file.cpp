#include "models/core/open_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "models/core/error.h"

namespace meshwright::core {

namespace {

bool raise_limit_of_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace

int open_to_read(const std::string& path) {
  const auto open_it = [&] { return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); };
  int descriptor = open_it();
  if (descriptor >= 0 || errno != EMFILE) return descriptor;
  if (raise_limit_of_open_files()) return open_it();
  errno = EMFILE;
  return -1;
}

bool names_open_file(const std::string& path) {
  const bool is_of_a_process = path.starts_with("/proc/") && path.find("/fd/") != std::string::npos;
  return path == "/dev/stdin" || path.starts_with("/dev/fd/") || is_of_a_process;
}

void check_readable(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    throw InputError(
        path + (errno == ENOENT || errno == ENOTDIR
                    ? ": no such file"
                    : std::string(": cannot be opened for reading: ") + std::strerror(errno)));
  if (S_ISDIR(status.st_mode)) throw InputError(path + ": is a folder; name a file in it");
  if (!S_ISREG(status.st_mode) && !names_open_file(path))
    throw InputError(path + ": is not a regular file; name one, or /dev/stdin");
}

}  // namespace meshwright::core
