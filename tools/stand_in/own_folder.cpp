#include "tools/stand_in/own_folder.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

// This library replaces the functions of libc that open, make and delete files, so this file asks
// the kernel.
namespace meshwright::stand_in {

namespace {

constexpr const char* kMark = ".meshwright-deleted";

struct Places {
  std::string own, log, files, deleted;

  Places() {
    const char* folder = std::getenv("MESHWRIGHT_STAND_IN_FOLDER");
    if (folder == nullptr || *folder == '\0') return;
    own = folder;
    files = own + "/files";
    deleted = own + "/deleted";
    if (const char* path = std::getenv("MESHWRIGHT_STAND_IN_LOG")) log = path;
  }
};

const Places& places() {
  static const Places* const the = new Places;
  return *the;
}

bool lies_in(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool exists(const std::string& path) {
  struct stat found;
  return syscall(SYS_newfstatat, AT_FDCWD, path.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
}

void make_folder(const std::string& path) { syscall(SYS_mkdir, path.c_str(), 0755); }

void make_folders_to(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1))
    make_folder(path.substr(0, at));
}

bool is_deleted(const std::string& path) {
  if (!exists(places().deleted)) return false;
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    if (exists(places().deleted + path.substr(0, at) + "/" + kMark)) return true;
    if (at == path.npos) return false;
  }
}

void copy(const std::string& from, const std::string& to) {
  const int source =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, from.c_str(), O_RDONLY | O_CLOEXEC, 0));
  struct stat about;
  if (source < 0) return;
  if (fstat(source, &about) == 0 && S_ISREG(about.st_mode)) {
    const int target = static_cast<int>(syscall(
        SYS_openat, AT_FDCWD, to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, about.st_mode | 0200));
    off_t at = 0;
    while (target >= 0 && at < about.st_size &&
           sendfile(target, source, &at, static_cast<std::size_t>(about.st_size - at)) > 0) {
    }
    if (target >= 0) close(target);
  }
  close(source);
}

std::string read_link(const std::string& path) {
  char text[4096];
  const long bytes = syscall(SYS_readlinkat, AT_FDCWD, path.c_str(), text, sizeof text);
  return bytes > 0 ? std::string(text, static_cast<std::size_t>(bytes)) : "";
}

}  // namespace

bool has_own_files() {
  return !places().own.empty() && (exists(places().files) || exists(places().deleted));
}

bool is_covered(const std::string& path) {
  if (places().own.empty()) return false;
  for (const std::string_view other : {"/dev", "/proc", "/sys", "/run"})
    if (lies_in(path, other)) return false;
  if (lies_in(path, places().own) || (!places().log.empty() && path.starts_with(places().log)))
    return false;
  struct stat found;
  return syscall(SYS_newfstatat, AT_FDCWD, path.c_str(), &found, 0) != 0 ||
         S_ISREG(found.st_mode) || S_ISDIR(found.st_mode);
}

std::string from_root(int directory, const char* path) {
  std::string whole = path;
  if (*path != '/') {
    const std::string base =
        directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(directory);
    std::string folder = read_link(base);
    if (!places().own.empty() && lies_in(folder, places().files))
      folder.erase(0, places().files.size());
    whole = folder + "/" + whole;
  }
  std::string plain;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = std::min(whole.find('/', at), whole.size());
    const std::string_view part = std::string_view(whole).substr(at, end - at);
    if (part == "..")
      plain.erase(std::min(plain.rfind('/'), plain.size()));
    else if (!part.empty() && part != ".")
      plain.append("/").append(part);
    at = end + 1;
  }
  return plain.empty() ? "/" : plain;
}

bool is_written(const std::string& path) { return exists(places().files + path); }
bool is_real(const std::string& path) { return exists(path); }
bool is_there(const std::string& path) {
  return is_written(path) || (is_real(path) && !is_deleted(path));
}

std::string to_read(const std::string& path) {
  if (is_written(path)) return places().files + path;
  return is_deleted(path) ? "" : path;
}

std::string to_write(const std::string& path, bool keep) {
  const std::string written = places().files + path;
  if (!exists(written)) {
    const std::string folder = path.substr(0, std::max<std::size_t>(1, path.rfind('/')));
    if (!is_there(folder)) return "";
    make_folders_to(written);
    if (keep && !is_deleted(path)) copy(path, written);
  }
  syscall(SYS_unlink, (places().deleted + path + "/" + kMark).c_str());
  return written;
}

void mark_deleted(const std::string& path) {
  const std::string mark = places().deleted + path + "/" + kMark;
  make_folders_to(mark);
  const long file =
      syscall(SYS_openat, AT_FDCWD, mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file >= 0) close(static_cast<int>(file));
}

bool is_marked(const std::string& path) { return exists(places().deleted + path + "/" + kMark); }

}  // namespace meshwright::stand_in
