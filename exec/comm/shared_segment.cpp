#include "exec/comm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace meshwright::exec {

SharedSegment SharedSegment::map(int descriptor, std::int64_t bytes) {
  SharedSegment segment;
  if (descriptor < 0) return segment;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) {
    close(descriptor);
    return segment;
  }
  segment.base_ = static_cast<char*>(base);
  segment.bytes_ = bytes;
  segment.descriptor_ = descriptor;
  return segment;
}

SharedSegment SharedSegment::create(std::int64_t bytes) {
  const int descriptor = memfd_create("meshwright", MFD_CLOEXEC);
  if (descriptor >= 0 && ftruncate(descriptor, bytes) != 0) {
    close(descriptor);
    return {};
  }
  return map(descriptor, bytes);
}

SharedSegment SharedSegment::open(const SegmentName& name) {
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.descriptor);
  return map(::open(path.c_str(), O_RDWR | O_CLOEXEC), name.bytes);
}

SharedSegment::~SharedSegment() {
  if (base_ != nullptr) munmap(base_, bytes_);
  close_descriptor();
}

void SharedSegment::close_descriptor() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

SegmentName SharedSegment::name() const { return {getpid(), descriptor_, bytes_}; }

void SharedSegment::swap(SharedSegment& other) {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
}

}  // namespace meshwright::exec
