#include "models/core/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "models/core/error.h"

namespace meshwright::core {

namespace {

namespace fs = std::filesystem;
using Kind = OutputPlace::Kind;

constexpr int most_links = 40;  // as many as Linux follows
constexpr std::chrono::seconds for_a_reader{10};
constexpr mode_t permissions = 0777;

// Returns whether a path names a file that a process has open, like /proc/self/fd/1. The links
// /dev/stdout and /dev/fd/1 lead to such paths.
bool is_of_process(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(path.parent_path(), error);
  return !error && folder.filename() == "fd" && folder.string().starts_with("/proc/");
}

// Returns the number of this process's descriptor that a path like /proc/self/fd/1 names, or
// nothing for other paths.
std::optional<int> own_descriptor(const fs::path& path) {
  std::error_code error;
  const std::string name = path.filename().string();
  int number = -1;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) return std::nullopt;
  const fs::path folder = fs::canonical(path.parent_path(), error);
  if (error || folder != fs::canonical("/proc/self/fd", error)) return std::nullopt;
  return number;
}

// Returns whether the link is in a sticky folder that all may write to, such as /tmp, and belongs
// to neither this user nor the folder's owner. Somebody may have put it there to redirect the
// output. Linux can be set to follow no such link (protected_symlinks). This function applies the
// same rule on every system.
bool is_planted(const fs::path& link) {
  struct stat own {
  }, folder{};
  if (lstat(link.c_str(), &own) != 0 || stat((link.parent_path() / ".").c_str(), &folder) != 0)
    return false;
  constexpr mode_t shared = S_ISVTX | S_IWOTH;
  return (folder.st_mode & shared) == shared && own.st_uid != geteuid() &&
         own.st_uid != folder.st_uid;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void check_folder(const std::string& path, const fs::path& file) {
  fs::path folder = folder_of(file);
  std::error_code error;
  while (!fs::exists(folder, error) && folder != ".") folder = folder_of(folder);
  if (!fs::is_directory(folder, error) || access(folder.c_str(), W_OK | X_OK) != 0)
    throw InputError(path + ": nothing can be written in " + folder.string());
}

// Returns whether the file must not be replaced: this process may not write to it, or it has no
// permission to write for anybody. The superuser may write even then, but whoever takes these
// permissions from a file wants it kept.
bool is_read_only(const fs::path& file, const struct stat& status) {
  return (status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0 || access(file.c_str(), W_OK) != 0;
}

Kind kind_of(const std::string& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return Kind::file;
  if (S_ISFIFO(status.st_mode)) return Kind::pipe;
  if (S_ISCHR(status.st_mode)) return Kind::device;
  if (S_ISDIR(status.st_mode)) throw InputError(path + ": is a folder; name a file in it");
  if (S_ISBLK(status.st_mode)) throw InputError(path + ": is a disk; name a file");
  throw InputError(path + ": is a socket; name a file");
}

OutputPlace place_of_descriptor(const std::string& path, int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0) throw InputError(path + ": is not open; name a file");
  if ((flags & O_ACCMODE) == O_RDONLY)
    throw InputError(path + ": is open for reading only; name a file");
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && S_ISBLK(status.st_mode)) kind_of(path, status);
  return {Kind::open_file, path, descriptor};
}

std::string new_part_name(const std::string& folder) {
  std::random_device draw;
  return (fs::path(folder) / fmt::format(".meshwright-{:08x}{:08x}.part", draw(), draw())).string();
}

// Opens a pipe or a device to write to it. Returns the descriptor, or -1 with errno. A plain open()
// might wait without an end for a pipe's reader. This function throws RunError if a pipe has no
// reader within ten seconds.
int open_through(const std::string& path) {
  const auto until = std::chrono::steady_clock::now() + for_a_reader;
  for (;;) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor >= 0) fcntl(descriptor, F_SETFL, O_WRONLY);
    struct stat status {};
    const bool has_no_reader = descriptor < 0 && errno == ENXIO &&
                               stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
    if (!has_no_reader) return descriptor;
    if (std::chrono::steady_clock::now() >= until)
      throw RunError(fmt::format(
          "{}: is a pipe that nobody has opened for reading within {} s; start its reader first",
          path, for_a_reader.count()));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// While an object of this class lives, this thread's writes to a pipe without a reader fail with an
// error. Otherwise the signal SIGPIPE would end the process.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec none{};
    if (!was_pending_)
      while (sigtimedwait(&sigpipe_, nullptr, &none) < 0 && errno == EINTR) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t sigpipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace

OutputPlace output_place(const std::string& path) {
  struct stat status {};
  // stat() follows the links, so the system decides first whether they may be followed. It may
  // forbid this in a shared folder.
  const bool is_there = stat(path.c_str(), &status) == 0;
  if (!is_there && errno == ELOOP)
    throw InputError(path + ": its links lead in a circle; name a file");
  if (!is_there && errno != ENOENT && errno != ENOTDIR)
    throw InputError(path + ": cannot be written: " + std::strerror(errno));
  fs::path place = path;
  std::error_code error;
  for (int links = 0; links < most_links; ++links) {
    if (const auto descriptor = own_descriptor(place))
      return place_of_descriptor(path, *descriptor);
    if (!fs::is_symlink(fs::symlink_status(place, error))) break;
    if (is_of_process(place) && S_ISREG(status.st_mode))
      throw InputError(path + ": is open in another process; name the file itself");
    if (is_planted(place))
      throw InputError(path +
                       ": is a link of somebody else in a folder that all may write to; "
                       "name another file");
    place = place.parent_path() / fs::read_symlink(place, error);
  }
  if (is_there)
    if (const Kind kind = kind_of(path, status); kind != Kind::file) return {kind, path};
  if (!place.has_filename()) throw InputError(path + ": is a folder; name a file in it");
  if (is_there && is_read_only(place, status))
    throw InputError(path + ": is read-only; name another file, or allow writing: chmod u+w");
  check_folder(path, place);
  return {Kind::file, place.string()};
}

PartName::PartName(const std::string& folder) : path_(new_part_name(folder)) {}

PartName::~PartName() {
  if (!path_.empty()) unlink(path_.c_str());
}

int PartName::rename_to(const std::string& path) {
  if (std::rename(path_.c_str(), path.c_str()) != 0) return errno;
  path_.clear();
  return 0;
}

OutputFile::OutputFile(const std::string& path)
    : path_(path), place_(output_place(path)), part_(folder_of(place_.path).string()) {
  if (place_.kind == Kind::file)
    open_file();
  else
    open_to_write_through();
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void OutputFile::open_file() {
  std::error_code error;
  fs::create_directories(folder_of(place_.path), error);  // opening says what is wrong
  descriptor_ =
      open(part_.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
  struct stat old {
  }, own{};
  if (stat(place_.path.c_str(), &old) != 0 || fstat(descriptor_, &own) != 0) return;
  // The new file keeps the owner of the file that it replaces if this process may give files away,
  // as the superuser may. Otherwise this user becomes the owner.
  if (old.st_uid != own.st_uid || old.st_gid != own.st_gid) [[maybe_unused]]
    const int ignored = fchown(descriptor_, old.st_uid, old.st_gid);
  if (fchmod(descriptor_, old.st_mode & permissions) != 0) fail(errno);
}

void OutputFile::open_to_write_through() {
  if (place_.kind == Kind::open_file) {
    // Text that the program has printed so far comes first. The descriptor is copied, because
    // opening the path again would begin at the file's first byte.
    std::fflush(nullptr);
    descriptor_ = fcntl(place_.descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) fail(errno);
    return;
  }
  descriptor_ = open_through(place_.path);
  if (descriptor_ < 0) fail(errno);
  struct stat status {};
  if (fstat(descriptor_, &status) == 0 && kind_of(path_, status) != place_.kind)
    throw RunError(path_ + ": was replaced by another file while it was written");
}

void OutputFile::write(std::string_view bytes) {
  const WithoutSigpipe guard;
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {  // the descriptor is in non-blocking mode
      pollfd writable{descriptor_, POLLOUT, 0};
      poll(&writable, 1, -1);
      continue;
    }
    if (count < 0) fail(errno);
    bytes.remove_prefix(count);
  }
}

void OutputFile::rewrite_begin(std::string_view bytes) {
  for (off_t offset = 0; !bytes.empty();) {
    const ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    bytes.remove_prefix(count);
    offset += count;
  }
}

void OutputFile::finish() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0 && errno != EINTR) fail(errno);
  if (place_.kind != Kind::file) return;
  if (const int why = part_.rename_to(place_.path); why != 0) fail(why);
}

void OutputFile::fail(int why) const {
  throw RunError(path_ + ": cannot be written: " + std::strerror(why));
}

}  // namespace meshwright::core
