#include "exec/log/growing_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "models/core/error.h"

namespace meshwright::exec {

namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw RunError(path + ": " + what + ": " + std::strerror(errno));
}

constexpr int longest_wait_ms = 10'000;  // for the reader of a pipe

// Writes like write(). If the reader of a pipe has gone, the call fails with EPIPE, and SIGPIPE
// does not end the process.
ssize_t write_quietly(int descriptor, std::string_view record) {
  sigset_t broken, before, pending;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  const ssize_t count = write(descriptor, record.data(), record.size());
  const int why = errno;
  constexpr timespec at_once{0, 0};
  if (count < 0 && why == EPIPE && sigismember(&pending, SIGPIPE) == 0)
    sigtimedwait(&broken, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = why;
  return count;
}

}  // namespace

// Opens the file without waiting. A pipe that has no reader then fails to open.
GrowingFile::GrowingFile(std::string path, int flags) : path_(std::move(path)) {
  std::error_code ignored;  // opening says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  descriptor_ = open(path_.c_str(), flags | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  if (descriptor_ >= 0) return;
  if (errno == ENXIO) throw RunError(path_ + ": cannot be opened for writing: nobody reads it");
  fail(path_, "cannot be opened for writing");
}

GrowingFile GrowingFile::create(const std::string& path) {
  return {path, O_WRONLY | O_TRUNC | O_APPEND};
}

GrowingFile GrowingFile::append_lines(const std::string& path) {
  struct stat status {};
  const bool regular = stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  GrowingFile file(path, (regular ? O_RDWR : O_WRONLY) | O_APPEND);
  file.cut_torn_line();
  return file;
}

GrowingFile::GrowingFile(GrowingFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

GrowingFile::~GrowingFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::int64_t GrowingFile::size() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail(path_, "cannot be looked at");
  return S_ISREG(status.st_mode) ? status.st_size : -1;
}

void GrowingFile::cut_torn_line() {
  std::int64_t end = size();
  const std::int64_t whole = end;
  for (char last = '\n'; end > 0; --end) {
    if (pread(descriptor_, &last, 1, end - 1) != 1) fail(path_, "cannot be read");
    if (last == '\n') break;
  }
  if (end < whole && ftruncate(descriptor_, end) != 0) fail(path_, "cannot be written");
}

// Returns whether the reader of a full pipe makes room within ten seconds.
bool GrowingFile::waits_for_room() const {
  pollfd room{descriptor_, POLLOUT, 0};
  return poll(&room, 1, longest_wait_ms) > 0;
}

void GrowingFile::add(std::string_view record) {
  const std::int64_t begin = size();
  while (!record.empty()) {
    const ssize_t count = write_quietly(descriptor_, record);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      if (waits_for_room()) continue;
      throw RunError(path_ + ": cannot be written: nobody reads it");
    }
    if (count < 0) {
      const int why = errno;
      // This may fail, which does not matter: append_lines() removes an incomplete line too.
      [[maybe_unused]] const bool taken_back = begin >= 0 && ftruncate(descriptor_, begin) == 0;
      errno = why;
      fail(path_, "cannot be written");
    }
    record.remove_prefix(count);
  }
}

}  // namespace meshwright::exec
