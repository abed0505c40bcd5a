// A file that grows by whole records. Each record is written at once, so that readers see it and
// none is lost if the process crashes. If a write fails because the disk is full, the part of the
// record that was written is removed again. A pipe can be written to as well. If it has no reader,
// or if its reader makes no room within 10 s, that is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright::exec {

class GrowingFile {
 public:
  // Opens a file and makes the folders above it. Throws RunError `path: what: why`, as add() does.
  static GrowingFile create(const std::string& path);  // empty, whatever was there
  // Opens a file to append after its last whole line. An incomplete line, as a killed run leaves
  // it, is removed.
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

}  // namespace meshwright::exec
