#include "exec/core/open_file.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>

namespace meshwright {

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

}  // namespace meshwright
