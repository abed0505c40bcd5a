#include "tests/exec/system_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <mutex>
#include <type_traits>

namespace meshwright::tests {

namespace {

struct Watch {
  std::recursive_mutex mutex;
  std::string folder;  // empty: nobody watches
  Fault fault;
  std::vector<SystemCall> calls;
  std::map<int, std::string> paths;  // paths of descriptors below the folder

  bool is_below(const std::string& path) const {
    return !folder.empty() && path.starts_with(folder) &&
           (path.size() == folder.size() || path[folder.size()] == '/');
  }
  std::string path_of(int descriptor) const {
    const auto found = paths.find(descriptor);
    return found == paths.end() ? "" : found->second;
  }
};

Watch& watch() {
  static Watch& all = *new Watch;  // calls are made until the very end
  return all;
}

[[noreturn]] void end_here() {
  ::kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Does `real`, or what the fault says. A failed call returns -1 or null.
template <typename Real, typename Half>
auto call(SystemCall about, const Real& real, const Half& half) -> decltype(real()) {
  Watch& all = watch();
  const std::scoped_lock lock(all.mutex);
  if (!all.is_below(about.path)) return real();
  const std::size_t number = all.calls.size();
  all.calls.push_back(std::move(about));
  const Fault& fault = all.fault;
  if (fault.kind != Fault::Kind::none && fault.call == number) {
    if (fault.kind == Fault::Kind::tear) half();
    if (fault.kind != Fault::Kind::error) end_here();
    errno = fault.error;
    if constexpr (std::is_pointer_v<decltype(real())>)
      return nullptr;
    else
      return -1;
  }
  errno = 0;  // the end of a folder is no error
  const auto result = real();
  if constexpr (std::is_pointer_v<decltype(real())>)
    all.calls[number].good = result != nullptr;
  else
    all.calls[number].good = result >= 0;
  return result;
}

template <typename Real>
auto call(SystemCall about, const Real& real) -> decltype(real()) {
  return call(std::move(about), real, [] {});
}

// Returns the path of a name below an open folder.
std::string at(int folder, const char* name) {
  if (name[0] == '/' || folder == AT_FDCWD) return name;
  const std::string path = watch().path_of(folder);
  return path.empty() ? "" : path + "/" + name;
}

SystemCall of_path(const char* name, const std::string& path) {
  SystemCall about;
  about.name = name;
  about.path = path;
  return about;
}

SystemCall of_descriptor(const char* name, int descriptor) {
  const std::scoped_lock lock(watch().mutex);
  return of_path(name, watch().path_of(descriptor));
}

int opened(int descriptor, const std::string& path) {
  const std::scoped_lock lock(watch().mutex);
  if (descriptor >= 0 && watch().is_below(path)) watch().paths[descriptor] = path;
  return descriptor;
}

}  // namespace

WatchedCalls::WatchedCalls(const std::string& folder, const Fault& fault) {
  const std::scoped_lock lock(watch().mutex);
  watch().folder = folder;
  watch().fault = fault;
  watch().calls.clear();
}

WatchedCalls::~WatchedCalls() {
  const std::scoped_lock lock(watch().mutex);
  watch().folder.clear();
  watch().paths.clear();
}

std::vector<SystemCall> WatchedCalls::seen() const {
  const std::scoped_lock lock(watch().mutex);
  return watch().calls;
}

}  // namespace meshwright::tests

// The C library's function of the same name, which this program's function replaces.
#define LIBRARY(name) \
  static const auto library = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name))

using meshwright::tests::at;
using meshwright::tests::call;
using meshwright::tests::of_descriptor;
using meshwright::tests::of_path;
using meshwright::tests::opened;

extern "C" {

#define OPEN(name)                                                                           \
  int name(const char* path, int flags, ...) {                                               \
    LIBRARY(name);                                                                           \
    va_list more;                                                                            \
    va_start(more, flags);                                                                   \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;                   \
    va_end(more);                                                                            \
    auto about = of_path("open", path);                                                      \
    about.makes = (flags & (O_CREAT | O_TRUNC)) != 0;                                        \
    return opened(call(std::move(about), [&] { return library(path, flags, mode); }), path); \
  }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                                          \
  int name(int folder, const char* path, int flags, ...) {                                    \
    LIBRARY(name);                                                                            \
    va_list more;                                                                             \
    va_start(more, flags);                                                                    \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;                    \
    va_end(more);                                                                             \
    auto about = of_path("open", at(folder, path));                                           \
    about.makes = (flags & (O_CREAT | O_TRUNC)) != 0;                                         \
    const std::string whole = about.path;                                                     \
    return opened(call(std::move(about), [&] { return library(folder, path, flags, mode); }), \
                  whole);                                                                     \
  }
OPENAT(openat)
OPENAT(openat64)

int close(int descriptor) {
  LIBRARY(close);
  const auto result = call(of_descriptor("close", descriptor), [&] { return library(descriptor); });
  meshwright::tests::Watch& all = meshwright::tests::watch();
  const std::scoped_lock lock(all.mutex);
  all.paths.erase(descriptor);
  return result;
}

ssize_t read(int descriptor, void* to, size_t bytes) {
  LIBRARY(read);
  return call(of_descriptor("read", descriptor), [&] { return library(descriptor, to, bytes); });
}

ssize_t write(int descriptor, const void* from, size_t bytes) {
  LIBRARY(write);
  auto about = of_descriptor("write", descriptor);
  if (!about.path.empty()) about.data.assign(static_cast<const char*>(from), bytes);
  return call(
      std::move(about), [&] { return library(descriptor, from, bytes); },
      [&] { [[maybe_unused]] const ssize_t half = library(descriptor, from, bytes / 2); });
}

#define PREAD(name, offset_type)                                             \
  ssize_t name(int descriptor, void* to, size_t bytes, offset_type offset) { \
    LIBRARY(name);                                                           \
    return call(of_descriptor("pread", descriptor),                          \
                [&] { return library(descriptor, to, bytes, offset); });     \
  }
PREAD(pread, off_t)
PREAD(pread64, off64_t)
#define PWRITE(name, offset_type)                                                             \
  ssize_t name(int descriptor, const void* from, size_t bytes, offset_type offset) {          \
    LIBRARY(name);                                                                            \
    auto about = of_descriptor("pwrite", descriptor);                                         \
    about.offset = offset;                                                                    \
    if (!about.path.empty()) about.data.assign(static_cast<const char*>(from), bytes);        \
    return call(                                                                              \
        std::move(about), [&] { return library(descriptor, from, bytes, offset); },           \
        [&] {                                                                                 \
          [[maybe_unused]] const ssize_t half = library(descriptor, from, bytes / 2, offset); \
        });                                                                                   \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

// Does nothing, because the power does not fail here, and takes no time.
int fsync(int descriptor) {
  return call(of_descriptor("fsync", descriptor), [] { return 0; });
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  LIBRARY(ftruncate);
  auto about = of_descriptor("ftruncate", descriptor);
  about.offset = bytes;
  return call(std::move(about), [&] { return library(descriptor, bytes); });
}

int flock(int descriptor, int how) noexcept {
  LIBRARY(flock);
  return call(of_descriptor("flock", descriptor), [&] { return library(descriptor, how); });
}

int rename(const char* from, const char* to) noexcept {
  LIBRARY(rename);
  auto about = of_path("rename", from);
  about.to = to;
  return call(std::move(about), [&] { return library(from, to); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  LIBRARY(mkdir);
  return call(of_path("mkdir", path), [&] { return library(path, mode); });
}

int rmdir(const char* path) noexcept {
  LIBRARY(rmdir);
  return call(of_path("rmdir", path), [&] { return library(path); });
}

int remove(const char* path) noexcept {
  LIBRARY(remove);
  return call(of_path("remove", path), [&] { return library(path); });
}

int unlink(const char* path) noexcept {
  LIBRARY(unlink);
  return call(of_path("unlink", path), [&] { return library(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  LIBRARY(unlinkat);
  return call(of_path((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", at(folder, path)),
              [&] { return library(folder, path, flags); });
}

#define STAT(name, status_type)                                                \
  int name(const char* path, struct status_type* status) noexcept {            \
    LIBRARY(name);                                                             \
    return call(of_path("stat", path), [&] { return library(path, status); }); \
  }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)
#define FSTAT(name, status_type)                                                                  \
  int name(int descriptor, struct status_type* status) noexcept {                                 \
    LIBRARY(name);                                                                                \
    return call(of_descriptor("fstat", descriptor), [&] { return library(descriptor, status); }); \
  }
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

DIR* opendir(const char* path) {
  LIBRARY(opendir);
  DIR* stream = call(of_path("opendir", path), [&] { return library(path); });
  if (stream != nullptr) opened(dirfd(stream), path);
  return stream;
}

DIR* fdopendir(int descriptor) {
  LIBRARY(fdopendir);
  return call(of_descriptor("fdopendir", descriptor), [&] { return library(descriptor); });
}

dirent* readdir(DIR* stream) {
  LIBRARY(readdir);
  return call(of_descriptor("readdir", dirfd(stream)), [&] { return library(stream); });
}

dirent64* readdir64(DIR* stream) {
  LIBRARY(readdir64);
  return call(of_descriptor("readdir", dirfd(stream)), [&] { return library(stream); });
}

int closedir(DIR* stream) {
  LIBRARY(closedir);
  meshwright::tests::Watch& all = meshwright::tests::watch();
  const std::scoped_lock lock(all.mutex);
  all.paths.erase(dirfd(stream));
  return library(stream);
}

}  // extern "C"
