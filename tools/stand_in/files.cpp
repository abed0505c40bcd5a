// Replaces the functions of libc that open, make, delete and list files, so that they work on the
// script's own folder (own_folder.h). They are preloaded into the script and the programs that it
// starts.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "tools/stand_in/own_folder.h"

using namespace meshwright::stand_in;

namespace {

// Returns the function of libc that has this name, with the type of the own function.
template <typename Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define MESHWRIGHT_REAL(NAME) static auto* const libc = real(&NAME, #NAME)

template <typename Result>
Result failed(int why) {
  errno = why;
  if constexpr (std::is_pointer_v<Result>)
    return nullptr;
  else
    return -1;
}

// Calls `call` with the path of the file that the script reads as `path`. Fails with ENOENT if it
// was deleted.
template <typename Call>
auto reading(int directory, const char* path, Call call) {
  using Result = decltype(call(path));
  if (path == nullptr || *path == '\0' || !has_own_files()) return call(path);
  const std::string whole = from_root(directory, path);
  if (!is_covered(whole)) return call(path);
  const std::string found = to_read(whole);
  return found.empty() ? failed<Result>(ENOENT) : call(found.c_str());
}

// Calls `call` with the path in the own folder that stands for `path`, which is written. With
// `keep`, the file's content is copied there first.
template <typename Call>
auto writing(int directory, const char* path, bool keep, Call call) {
  using Result = decltype(call(path));
  if (path == nullptr || *path == '\0') return call(path);
  const std::string whole = from_root(directory, path);
  if (!is_covered(whole)) return call(path);
  const std::string found = to_write(whole, keep);
  return found.empty() ? failed<Result>(ENOENT) : call(found.c_str());
}

// Calls `call` to change the mode or the times of a file in the own folder. For a real file it only
// seems to succeed.
template <typename Call>
int touching(int directory, const char* path, Call call) {
  if (path == nullptr || *path == '\0') return call(path);
  const std::string whole = from_root(directory, path);
  if (!is_covered(whole)) return call(path);
  if (is_written(whole)) return call(to_read(whole).c_str());
  return is_there(whole) ? 0 : failed<int>(ENOENT);
}

bool is_folder(const std::string& path) {
  struct stat found;
  return syscall(SYS_newfstatat, AT_FDCWD, path.c_str(), &found, 0) == 0 && S_ISDIR(found.st_mode);
}

template <typename Call>
int opening(int directory, const char* path, int flags, Call call) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
  if (!writes) return reading(directory, path, call);
  const std::string whole = from_root(directory, path);
  if (!is_covered(whole)) return call(path);
  if ((flags & O_TMPFILE) == O_TMPFILE) return failed<int>(EOPNOTSUPP);
  const bool there = is_there(whole);
  if (there && (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return failed<int>(EEXIST);
  if (!there && (flags & O_CREAT) == 0) return failed<int>(ENOENT);
  if (there && is_folder(to_read(whole))) return failed<int>(EISDIR);
  return writing(directory, path, (flags & O_TRUNC) == 0,
                 [&](const char* found) { return call(found); });
}

int removing(int directory, const char* path, bool folder) {
  const std::string whole = from_root(directory, path);
  const std::string found = is_covered(whole) ? to_read(whole) : path;
  const auto remove = [&](const std::string& each) {
    return static_cast<int>(
        syscall(SYS_unlinkat, AT_FDCWD, each.c_str(), folder ? AT_REMOVEDIR : 0));
  };
  if (!is_covered(whole))
    return static_cast<int>(syscall(SYS_unlinkat, directory, path, folder ? AT_REMOVEDIR : 0));
  if (!is_there(whole)) return failed<int>(ENOENT);
  if (folder != is_folder(found)) return failed<int>(folder ? ENOTDIR : EISDIR);
  if (is_written(whole) && remove(found) != 0) return -1;
  if (is_real(whole)) mark_deleted(whole);
  return 0;
}

// Has the entries of a folder that is real, in the own folder, or both, without deleted ones.
struct Listing {
  std::vector<std::vector<char>> entries;
  std::size_t next = 0;
};
std::mutex listings_lock;
std::map<DIR*, Listing>& listings() {
  static auto* const the = new std::map<DIR*, Listing>;
  return *the;
}

void list(const std::string& place, const std::string& folder, bool is_own,
          std::set<std::string>& names, Listing& listing) {
  MESHWRIGHT_REAL(opendir);
  static auto* const next = real(&readdir64, "readdir64");
  static auto* const close = real(&closedir, "closedir");
  DIR* const opened = libc(place.c_str());
  if (opened == nullptr) return;
  while (const dirent64* entry = next(opened)) {
    if (!names.insert(entry->d_name).second) continue;
    if (!is_own && is_marked((folder == "/" ? "" : folder) + "/" + entry->d_name)) continue;
    const char* const begin = reinterpret_cast<const char*>(entry);
    listing.entries.emplace_back(begin, begin + entry->d_reclen);
  }
  close(opened);
}

DIR* listed(DIR* opened, const std::string& folder) {
  if (opened == nullptr) return opened;
  Listing listing;
  std::set<std::string> names;
  if (is_written(folder)) list(to_read(folder), folder, true, names, listing);
  if (is_there(folder)) list(folder, folder, false, names, listing);
  const std::lock_guard guard(listings_lock);
  listings()[opened] = std::move(listing);
  return opened;
}

// Returns the next entry of a folder's listing, or null at its end. `known` tells whether the
// folder has a listing.
void* next_of(DIR* opened, bool& known) {
  const std::lock_guard guard(listings_lock);
  const auto found = listings().find(opened);
  known = found != listings().end();
  if (!known || found->second.next >= found->second.entries.size()) return nullptr;
  return found->second.entries[found->second.next++].data();
}

mode_t mode_of(int flags, va_list& more) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

FILE* opened_stream(const char* path, const char* mode, FILE* (*libc)(const char*, const char*)) {
  const auto call = [&](const char* found) { return libc(found, mode); };
  const bool updates = std::strchr(mode, '+') != nullptr;
  if (*mode == 'r' && !updates) return reading(AT_FDCWD, path, call);
  const std::string whole = from_root(AT_FDCWD, path);
  if (*mode == 'r' && is_covered(whole) && !is_there(whole)) return failed<FILE*>(ENOENT);
  return writing(AT_FDCWD, path, *mode != 'w', call);
}

// Calls `make` with names that replace the six X of a template before `suffix` characters, until
// one is new.
template <typename Make>
int with_new_name(char* pattern, int suffix, Make make) {
  const std::size_t length = std::strlen(pattern), tail = static_cast<std::size_t>(suffix);
  if (length < tail + 6) return failed<int>(EINVAL);
  static std::atomic<unsigned> count{0};
  for (int tries = 0; tries < 1000; ++tries) {
    char name[32];
    std::snprintf(name, sizeof name, "%05x%05x", static_cast<unsigned>(getpid()) & 0xfffff,
                  count++ & 0xfffff);
    std::memcpy(pattern + length - tail - 6, name + 4, 6);
    const int made = make();
    if (made >= 0 || errno != EEXIST) return made;
  }
  return failed<int>(EEXIST);
}

}  // namespace

extern "C" {

#define MESHWRIGHT_OPEN(NAME)                                                    \
  int NAME(const char* path, int flags, ...) {                                   \
    MESHWRIGHT_REAL(NAME);                                                       \
    va_list more;                                                                \
    va_start(more, flags);                                                       \
    const mode_t mode = mode_of(flags, more);                                    \
    va_end(more);                                                                \
    return opening(AT_FDCWD, path, flags,                                        \
                   [&](const char* found) { return libc(found, flags, mode); }); \
  }
MESHWRIGHT_OPEN(open)
MESHWRIGHT_OPEN(open64)

#define MESHWRIGHT_OPENAT(NAME)                                                             \
  int NAME(int directory, const char* path, int flags, ...) {                               \
    MESHWRIGHT_REAL(NAME);                                                                  \
    va_list more;                                                                           \
    va_start(more, flags);                                                                  \
    const mode_t mode = mode_of(flags, more);                                               \
    va_end(more);                                                                           \
    return opening(directory, path, flags,                                                  \
                   [&](const char* found) { return libc(directory, found, flags, mode); }); \
  }
MESHWRIGHT_OPENAT(openat)
MESHWRIGHT_OPENAT(openat64)

// Programs that were compiled with checks call these.
int __open_2(const char* path, int flags) { return open(path, flags); }
int __open64_2(const char* path, int flags) { return open64(path, flags); }
int __openat_2(int directory, const char* path, int flags) {
  return openat(directory, path, flags);
}
int __openat64_2(int directory, const char* path, int flags) {
  return openat64(directory, path, flags);
}
int creat(const char* path, mode_t mode) { return open(path, O_WRONLY | O_CREAT | O_TRUNC, mode); }
int creat64(const char* path, mode_t mode) { return creat(path, mode); }

int mkostemps(char* pattern, int suffix, int flags) {
  return with_new_name(pattern, suffix, [&] {
    return open(pattern, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
  });
}
int mkostemp(char* pattern, int flags) { return mkostemps(pattern, 0, flags); }
int mkostemp64(char* pattern, int flags) { return mkostemps(pattern, 0, flags); }
int mkstemps(char* pattern, int suffix) { return mkostemps(pattern, suffix, 0); }
int mkstemp(char* pattern) { return mkostemps(pattern, 0, 0); }
int mkstemp64(char* pattern) { return mkostemps(pattern, 0, 0); }
char* mkdtemp(char* pattern) noexcept {
  return with_new_name(pattern, 0, [&] { return mkdir(pattern, 0700); }) < 0 ? nullptr : pattern;
}

FILE* fopen(const char* path, const char* mode) {
  MESHWRIGHT_REAL(fopen);
  return opened_stream(path, mode, libc);
}
FILE* fopen64(const char* path, const char* mode) {
  MESHWRIGHT_REAL(fopen64);
  return opened_stream(path, mode, libc);
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  const std::string whole = from_root(directory, path);
  if (!is_covered(whole)) return static_cast<int>(syscall(SYS_mkdirat, directory, path, mode));
  if (is_there(whole)) return failed<int>(EEXIST);
  return writing(directory, path, false, [&](const char* found) {
    return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, found, mode));
  });
}
int mkdir(const char* path, mode_t mode) noexcept { return mkdirat(AT_FDCWD, path, mode); }
int unlinkat(int directory, const char* path, int flags) noexcept {
  return removing(directory, path, (flags & AT_REMOVEDIR) != 0);
}
int unlink(const char* path) noexcept { return removing(AT_FDCWD, path, false); }
int rmdir(const char* path) noexcept { return removing(AT_FDCWD, path, true); }
int remove(const char* path) noexcept {
  const std::string whole = from_root(AT_FDCWD, path);
  return removing(AT_FDCWD, path, is_folder(is_covered(whole) ? to_read(whole) : whole));
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) noexcept {
  const std::string source = from_root(from_directory, from), target = from_root(to_directory, to);
  const auto moved = [&](const std::string& first, const std::string& second) {
    return static_cast<int>(
        syscall(SYS_renameat2, AT_FDCWD, first.c_str(), AT_FDCWD, second.c_str(), flags));
  };
  if (!is_covered(source) && !is_covered(target))
    return static_cast<int>(syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
  if (!is_covered(source) || !is_covered(target)) return failed<int>(EXDEV);
  if (!is_there(source)) return failed<int>(ENOENT);
  // The caller copies a folder with real files if it gets EXDEV, as between two disks.
  if (is_real(source) && is_folder(source)) return failed<int>(EXDEV);
  const std::string first = to_write(source, true), second = to_write(target, false);
  if (second.empty()) return failed<int>(ENOENT);
  if (moved(first, second) != 0) return -1;
  if (is_real(source)) mark_deleted(source);
  return 0;
}
int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  return renameat2(from_directory, from, to_directory, to, 0);
}
int rename(const char* from, const char* to) noexcept {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int symlinkat(const char* target, int directory, const char* path) noexcept {
  const std::string whole = from_root(directory, path);
  if (is_covered(whole) && is_there(whole)) return failed<int>(EEXIST);
  return writing(directory, path, false, [&](const char* found) {
    return static_cast<int>(syscall(SYS_symlinkat, target, directory, found));
  });
}
int symlink(const char* target, const char* path) noexcept {
  return symlinkat(target, AT_FDCWD, path);
}
int linkat(int, const char*, int, const char*, int) noexcept { return failed<int>(EPERM); }
int link(const char*, const char*) noexcept { return failed<int>(EPERM); }
int truncate(const char* path, off_t bytes) noexcept {
  return writing(AT_FDCWD, path, true, [&](const char* found) {
    return static_cast<int>(syscall(SYS_truncate, found, bytes));
  });
}
int truncate64(const char* path, off64_t bytes) noexcept { return truncate(path, bytes); }

int fchmodat(int directory, const char* path, mode_t mode, int) noexcept {
  return touching(directory, path, [&](const char* found) {
    return static_cast<int>(syscall(SYS_fchmodat, directory, found, mode));
  });
}
int chmod(const char* path, mode_t mode) noexcept { return fchmodat(AT_FDCWD, path, mode, 0); }
int utimensat(int directory, const char* path, const timespec* times, int flags) noexcept {
  return touching(directory, path, [&](const char* found) {
    return static_cast<int>(syscall(SYS_utimensat, directory, found, times, flags));
  });
}

#define MESHWRIGHT_STAT(NAME, KIND)                                                        \
  int NAME(const char* path, struct KIND* about) noexcept {                                \
    MESHWRIGHT_REAL(NAME);                                                                 \
    return reading(AT_FDCWD, path, [&](const char* found) { return libc(found, about); }); \
  }
MESHWRIGHT_STAT(stat, stat)
MESHWRIGHT_STAT(stat64, stat64)
MESHWRIGHT_STAT(lstat, stat)
MESHWRIGHT_STAT(lstat64, stat64)
// These report the room on a disk. The folder that is asked for may be only in the own folder.
MESHWRIGHT_STAT(statfs, statfs)
MESHWRIGHT_STAT(statfs64, statfs64)
MESHWRIGHT_STAT(statvfs, statvfs)
MESHWRIGHT_STAT(statvfs64, statvfs64)

#define MESHWRIGHT_FSTATAT(NAME, KIND)                                                       \
  int NAME(int directory, const char* path, struct KIND* about, int flags) noexcept {        \
    MESHWRIGHT_REAL(NAME);                                                                   \
    return reading(directory, path,                                                          \
                   [&](const char* found) { return libc(directory, found, about, flags); }); \
  }
MESHWRIGHT_FSTATAT(fstatat, stat)
MESHWRIGHT_FSTATAT(fstatat64, stat64)

// Programs that were linked with an older libc call these.
int __xstat(int, const char* path, struct stat* about) { return stat(path, about); }
int __lxstat(int, const char* path, struct stat* about) { return lstat(path, about); }
int __xstat64(int, const char* path, struct stat64* about) { return stat64(path, about); }
int __lxstat64(int, const char* path, struct stat64* about) { return lstat64(path, about); }

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* about) noexcept {
  MESHWRIGHT_REAL(statx);
  return reading(directory, path,
                 [&](const char* found) { return libc(directory, found, flags, mask, about); });
}
int access(const char* path, int mode) noexcept {
  MESHWRIGHT_REAL(access);
  return reading(AT_FDCWD, path, [&](const char* found) { return libc(found, mode); });
}
int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  MESHWRIGHT_REAL(faccessat);
  return reading(directory, path,
                 [&](const char* found) { return libc(directory, found, mode, flags); });
}
ssize_t readlink(const char* path, char* text, std::size_t bytes) noexcept {
  MESHWRIGHT_REAL(readlink);
  return reading(AT_FDCWD, path, [&](const char* found) { return libc(found, text, bytes); });
}
ssize_t readlinkat(int directory, const char* path, char* text, std::size_t bytes) noexcept {
  MESHWRIGHT_REAL(readlinkat);
  return reading(directory, path,
                 [&](const char* found) { return libc(directory, found, text, bytes); });
}
int chdir(const char* path) noexcept {
  MESHWRIGHT_REAL(chdir);
  const std::string whole = from_root(AT_FDCWD, path);
  if (is_folder(whole) && is_covered(whole) && !to_read(whole).empty()) return libc(whole.c_str());
  return reading(AT_FDCWD, path, [&](const char* found) { return libc(found); });
}
char* getcwd(char* text, std::size_t bytes) noexcept {
  const std::string folder = from_root(AT_FDCWD, ".");
  if (text == nullptr) return strdup(folder.c_str());
  if (folder.size() >= bytes) return failed<char*>(ERANGE);
  return std::strcpy(text, folder.c_str());
}

#define MESHWRIGHT_ATTRIBUTE(NAME)                                                            \
  ssize_t NAME(const char* path, const char* name, void* value, std::size_t bytes) noexcept { \
    MESHWRIGHT_REAL(NAME);                                                                    \
    return reading(AT_FDCWD, path,                                                            \
                   [&](const char* found) { return libc(found, name, value, bytes); });       \
  }
MESHWRIGHT_ATTRIBUTE(getxattr)
MESHWRIGHT_ATTRIBUTE(lgetxattr)

DIR* opendir(const char* path) {
  MESHWRIGHT_REAL(opendir);
  DIR* const opened = reading(AT_FDCWD, path, [&](const char* found) { return libc(found); });
  if (opened == nullptr || !has_own_files()) return opened;
  const std::string whole = from_root(AT_FDCWD, path);
  return is_covered(whole) ? listed(opened, whole) : opened;
}
DIR* fdopendir(int directory) {
  MESHWRIGHT_REAL(fdopendir);
  if (!has_own_files()) return libc(directory);
  const std::string whole = from_root(directory, ".");
  DIR* const opened = libc(directory);
  return is_covered(whole) ? listed(opened, whole) : opened;
}
dirent* readdir(DIR* opened) {
  MESHWRIGHT_REAL(readdir);
  bool known = false;
  void* const entry = next_of(opened, known);
  return known ? static_cast<dirent*>(entry) : libc(opened);
}
dirent64* readdir64(DIR* opened) {
  MESHWRIGHT_REAL(readdir64);
  bool known = false;
  void* const entry = next_of(opened, known);
  return known ? static_cast<dirent64*>(entry) : libc(opened);
}
void rewinddir(DIR* opened) noexcept {
  MESHWRIGHT_REAL(rewinddir);
  const std::lock_guard guard(listings_lock);
  if (const auto found = listings().find(opened); found != listings().end()) found->second.next = 0;
  libc(opened);
}
int closedir(DIR* opened) {
  MESHWRIGHT_REAL(closedir);
  {
    const std::lock_guard guard(listings_lock);
    listings().erase(opened);
  }
  return libc(opened);
}

// Returns the path at which a file of the script is written, for libraries that ask the kernel
// itself. The text is valid until the thread's next call.
const char* meshwright_stand_in_written(const char* path) {
  thread_local std::string found;
  const std::string whole = from_root(AT_FDCWD, path);
  found = is_covered(whole) ? to_write(whole, false) : whole;
  return found.c_str();
}
}
