// Every file that the program writes as a whole is an OutputFile, so that all of them treat links,
// devices and faults in the same way. docs/commands.md describes this for users ("Files that are
// written").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// The kind of file that an output is written to, and how it is reached.
struct OutputPlace {
  enum class Kind : std::uint8_t {
    file,       // a regular file, there or not; it is replaced
    open_file,  // a descriptor of this process, as /dev/stdout or >(command) name it
    pipe,       // a named pipe
    device      // a character device, such as /dev/null
  };
  Kind kind = Kind::file;
  std::string path;     // of a file, where symbolic links lead; else as it was given
  int descriptor = -1;  // of an open file; else -1
};

// Returns where an output to `path` goes, without opening or changing anything. Commands call it
// before long work. Throws InputError, whose message begins with `path`, if nothing may or can be
// written there: a folder, a socket, a disk, a read-only file, a folder without permission, links
// in a circle.
OutputPlace output_place(const std::string& path);

// A name in `folder` that nobody can guess and that no file has yet. A writer creates a file of
// this name and renames it when the file is complete, so that readers see the whole file or none.
// The destructor removes a file that still has the name.
class PartName {
 public:
  explicit PartName(const std::string& folder);
  ~PartName();
  PartName(const PartName&) = delete;
  PartName& operator=(const PartName&) = delete;

  const std::string& path() const { return path_; }
  int rename_to(const std::string& path);  // returns 0, or errno

 private:
  std::string path_;
};

// Writes one output. An existing regular file keeps its content until finish() replaces it by the
// new one, which gets the same permissions. A fault before that leaves the old file and nothing
// else. Into pipes, devices and open descriptors, write() writes at once.
class OutputFile {
 public:
  // Makes the folders above `path`. Throws InputError as output_place(), and RunError if the file
  // cannot be created, or if a pipe has no reader after ten seconds.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // These three throw RunError `path: cannot be written: why`. rewrite_begin() overwrites the first
  // bytes, which only a regular file and a device like /dev/null allow.
  void write(std::string_view bytes);
  void rewrite_begin(std::string_view bytes);
  void finish();

 private:
  void open_file();
  void open_to_write_through();
  [[noreturn]] void fail(int why) const;

  std::string path_;
  OutputPlace place_;
  PartName part_;
  int descriptor_ = -1;
};

}  // namespace meshwright::core
