// A file that is written or read at byte offsets, such as one of a checkpoint. Functions throw
// RunError `path: what: why` if the system fails (a full disk, no permission), which says nothing
// about the file's contents. open() throws InputError if the file is missing or not a regular file,
// and a read does if the file ends too early.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright::exec {

class File {
 public:
  static File create(const std::string& path);  // empties it; refuses a symbolic link
  static File open(const std::string& path);    // for reading
  File(File&& other) noexcept;
  File& operator=(File&& other) = delete;
  ~File();

  void write(std::int64_t offset, const void* data, std::int64_t bytes) const;
  void sync() const;
  std::int64_t size() const;
  void read(std::int64_t offset, void* to, std::int64_t bytes) const;  // all of it, or throws
  std::string read(std::int64_t offset, std::int64_t bytes) const;
  const std::string& path() const { return path_; }

 private:
  File(std::string path, int descriptor);
  std::string path_;
  int descriptor_ = -1;
};

// Forces the folder's entries to the disk, so that files that were created, renamed or removed in
// it stay so after a power loss.
void sync_folder(const std::string& path);
void rename_path(const std::string& from, const std::string& to);
bool path_exists(const std::string& path);
// Makes the folder and the missing folders above it, and forces the new entries to the disk. Does
// nothing if the folder exists. Throws RunError if it cannot be made.
void make_folder(const std::string& path);
void remove_folder(const std::string& path);  // with all that is in it

// Reads pieces of a file at ascending offsets through a buffer of at most 1 MiB, so that a small
// piece does not need a system call of its own. Pieces of 1 MiB or more bypass the buffer.
class WindowReader {
 public:
  explicit WindowReader(const File& file) : file_(file) {}
  void read(std::int64_t offset, void* to, std::int64_t bytes);

 private:
  const File& file_;
  std::string window_;
  std::int64_t begin_ = 0;
};

}  // namespace meshwright::exec
