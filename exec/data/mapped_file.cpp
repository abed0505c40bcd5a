#include "exec/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "models/core/error.h"

namespace meshwright {

MappedFile::MappedFile(std::string path, const std::string& holds) : path_(std::move(path)) {
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw InputError(path_ + ": cannot be read (" + std::strerror(errno) + ")");
  struct stat status {};
  const bool known = fstat(descriptor, &status) == 0;
  if (!known || !S_ISREG(status.st_mode) || status.st_size == 0) {
    close(descriptor);
    throw InputError(path_ + (known && S_ISREG(status.st_mode)
                                  ? ": is empty; a data file holds at least " + holds
                                  : ": is not a regular file"));
  }
  bytes_ = status.st_size;
  void* mapped =
      mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (mapped == MAP_FAILED)
    throw InputError(path_ + ": cannot be mapped (" + std::strerror(errno) + ")");
  data_ = static_cast<const unsigned char*>(mapped);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<unsigned char*>(data_), static_cast<std::size_t>(bytes_));
}

}  // namespace meshwright
