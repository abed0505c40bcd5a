// A file that grows by whole records: each is written at once, so whoever watches sees it and a
// fault loses none. What was written of a record when the disk was full is taken back. A pipe is
// written to as well, but never waited for long: no reader, or one that stands still, is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright {

class GrowingFile {
 public:
  // Makes the folders above it. RunError `path: what: why`, as add().
  static GrowingFile create(const std::string& path);  // empty, whatever was there
  // Goes on after the last whole line: what a killed run left of one is cut off.
  static GrowingFile append_lines(const std::string& path);
  GrowingFile(GrowingFile&& other) noexcept;
  GrowingFile& operator=(GrowingFile&& other) = delete;
  ~GrowingFile();

  void add(std::string_view record);

 private:
  GrowingFile(std::string path, int flags);
  std::int64_t size() const;  // -1: a terminal, a pipe
  void cut_torn_line();
  bool waits_for_room() const;

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace meshwright
