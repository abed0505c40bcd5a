// A file of a checkpoint: written at places and forced to the disk, or read at places. A RunError
// `path: what: why` says that the system could not do it, and nothing of what the file holds; an
// InputError, that it is missing, ends too early or is no regular file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright {

class File {
 public:
  static File create(const std::string& path);  // empty; a link is not followed
  static File open(const std::string& path);    // for reading
  File(File&& other) noexcept;
  File& operator=(File&& other) = delete;
  ~File();

  void write(std::int64_t offset, const void* data, std::int64_t bytes) const;
  void sync() const;
  std::int64_t size() const;
  void read(std::int64_t offset, void* to, std::int64_t bytes) const;  // all of it, or an error
  std::string read(std::int64_t offset, std::int64_t bytes) const;
  const std::string& path() const { return path_; }

 private:
  File(std::string path, int descriptor);
  std::string path_;
  int descriptor_ = -1;
};

void sync_folder(const std::string& path);  // its entries: what was created, renamed, removed
void rename_path(const std::string& from, const std::string& to);
bool path_exists(const std::string& path);
// And those above it, on the disk for good; good when it is there.
void make_folder(const std::string& path);
void remove_folder(const std::string& path);  // with all that is in it

// Reads ascending pieces of a file through a window, so that small ones are not a call each.
class WindowReader {
 public:
  explicit WindowReader(const File& file) : file_(file) {}
  void read(std::int64_t offset, void* to, std::int64_t bytes);

 private:
  const File& file_;
  std::string window_;
  std::int64_t begin_ = 0;
};

}  // namespace meshwright
