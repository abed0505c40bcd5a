#include "exec/launch/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "models/core/error.h"

namespace meshwright::exec {

MemoryFile::MemoryFile(std::string_view content)
    : descriptor_(memfd_create("meshwright", MFD_CLOEXEC)) {
  bool good = descriptor_ >= 0;
  while (good && !content.empty()) {
    const ssize_t count = write(descriptor_, content.data(), content.size());
    good = count > 0;
    if (good) content.remove_prefix(count);
  }
  if (good) return;
  const std::string why = std::strerror(errno);
  if (descriptor_ >= 0) close(descriptor_);
  throw RunError("a file in memory for the ranks cannot be made: " + why);
}

MemoryFile::~MemoryFile() { close(descriptor_); }

std::string MemoryFile::path() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor_);
}

}  // namespace meshwright::exec
