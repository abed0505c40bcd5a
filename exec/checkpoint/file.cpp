#include "exec/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "models/core/error.h"
#include "models/core/open_file.h"

namespace meshwright::exec {

namespace {

constexpr std::int64_t window_bytes = 1 << 20;

void check(bool good, const std::string& path, const char* what) {
  if (!good) throw RunError(path + ": " + what + ": " + std::strerror(errno));
}

}  // namespace

File::File(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

File File::create(const std::string& path) {
  // A symbolic link could lead out of the folder, and opening a pipe would block.
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int descriptor = ::open(path.c_str(), flags, 0644);
  check(descriptor >= 0, path, "cannot be created");
  File file(path, descriptor);
  file.size();
  return file;
}

File File::open(const std::string& path) {
  const int descriptor = open_to_read(path);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR))
    throw InputError(path + ": is missing");
  check(descriptor >= 0, path, "cannot be opened");
  File file(path, descriptor);
  file.size();
  return file;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

void File::write(std::int64_t offset, const void* data, std::int64_t bytes) const {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = pwrite(descriptor_, from, bytes, offset);
    if (count < 0 && errno == EINTR) continue;
    check(count > 0, path_, "cannot be written");
    from += count, offset += count, bytes -= count;
  }
}

void File::sync() const { check(fsync(descriptor_) == 0, path_, "cannot be written"); }

std::int64_t File::size() const {
  struct stat status {};
  check(fstat(descriptor_, &status) == 0, path_, "cannot be read");
  if (!S_ISREG(status.st_mode)) throw InputError(path_ + ": is not a regular file");
  return status.st_size;
}

void File::read(std::int64_t offset, void* to, std::int64_t bytes) const {
  auto* into = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = pread(descriptor_, into, bytes, offset);
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, path_, "cannot be read");
    if (count == 0) throw InputError(path_ + ": ends at byte " + std::to_string(offset));
    into += count, offset += count, bytes -= count;
  }
}

std::string File::read(std::int64_t offset, std::int64_t bytes) const {
  std::string text(bytes, '\0');
  read(offset, text.data(), bytes);
  return text;
}

void sync_folder(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check(descriptor >= 0, path, "cannot be opened");
  const int why = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  errno = why;
  check(why == 0, path, "cannot be written");
}

void rename_path(const std::string& from, const std::string& to) {
  check(std::rename(from.c_str(), to.c_str()) == 0, to, "cannot be renamed to");
}

bool path_exists(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) return true;
  check(errno == ENOENT || errno == ENOTDIR, path, "cannot be looked at");
  return false;
}

void make_folder(const std::string& path) {
  const std::string above = std::filesystem::path(path).parent_path().string();
  int made = mkdir(path.c_str(), 0777);
  if (made != 0 && errno == ENOENT && !above.empty() && above != path) {
    make_folder(above);
    made = mkdir(path.c_str(), 0777);
  }
  if (made == 0) return sync_folder(above.empty() ? "." : above);
  struct stat status {};
  const bool is_there =
      errno == EEXIST && stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  check(is_there, path, "cannot be made");
}

void remove_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) throw RunError(path + ": cannot be removed: " + error.message());
}

void WindowReader::read(std::int64_t offset, void* to, std::int64_t bytes) {
  if (bytes >= window_bytes) return file_.read(offset, to, bytes);
  const auto held = static_cast<std::int64_t>(window_.size());
  if (offset < begin_ || offset + bytes > begin_ + held) {
    begin_ = offset;
    const std::int64_t left = std::max<std::int64_t>(file_.size() - offset, 0);
    window_.resize(std::max(bytes, std::min(window_bytes, left)));
    file_.read(offset, window_.data(), static_cast<std::int64_t>(window_.size()));
  }
  std::memcpy(to, window_.data() + (offset - begin_), bytes);
}

}  // namespace meshwright::exec
