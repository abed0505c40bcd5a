#include "exec/data/data_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "exec/data/containers.h"
#include "models/core/error.h"
#include "models/core/open_file.h"

namespace meshwright::exec {

DataFile::DataFile(std::string path, const std::string& holds) : path_(std::move(path)) {
  const int descriptor = open_to_read(path_);
  if (descriptor < 0) throw InputError(path_ + ": cannot be read (" + std::strerror(errno) + ")");
  struct stat status {};
  const bool is_regular = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_regular || status.st_size == 0) {
    close(descriptor);
    throw InputError(path_ + (is_regular ? ": is empty; a data file holds at least " + holds
                                         : ": is not a regular file"));
  }
  char begin[container_mark_bytes];
  const ssize_t count = pread(descriptor, begin, sizeof(begin), 0);
  try {
    if (count > 0) refuse_container({begin, static_cast<std::size_t>(count)}, path_);
  } catch (...) {
    close(descriptor);
    throw;
  }
  descriptor_ = descriptor;
  bytes_ = status.st_size;
}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_) {}

DataFile::~DataFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void DataFile::read(std::int64_t offset, void* to, std::int64_t bytes) const {
  auto* into = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = pread(descriptor_, into, bytes, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw RunError(path_ + ": cannot be read: " + std::strerror(errno));
    if (count == 0)
      throw RunError(path_ + ": ends at byte " + std::to_string(offset) + ", it had " +
                     std::to_string(bytes_) + " when the run began; put it back as it was");
    into += count, offset += count, bytes -= count;
  }
}

}  // namespace meshwright::exec
