// Writes a file as a whole, or a stream of text into a pipe or a device. Every output that is
// written in this way treats links, devices and faults alike (docs/commands.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// The kind of file that an output is written to, and how it is reached.
struct OutputPlace {
  enum class Kind : std::uint8_t {
    file,       // a regular file, which is replaced if it exists
    open_file,  // a descriptor of this process, as /dev/stdout or >(command) name it
    pipe,       // another pipe, such as a named one
    device      // another character device, such as /dev/null
  };
  Kind kind = Kind::file;
  std::string path;     // kind `file`: where symbolic links lead; otherwise the path as given
  int descriptor = -1;  // kind `open_file`: the descriptor's number; otherwise -1
};

// Returns where an output to `path` goes, without opening or changing anything. Commands call it
// before long work. Throws InputError, whose message begins with `path`, if the output would be
// refused: for example a folder, a socket, a disk, a read-only file, a folder without permission,
// or links in a circle.
OutputPlace output_place(const std::string& path);

// A random name in `folder`, which nobody can guess. A writer creates a file of this name and
// renames it when the file is complete, so that readers see the whole file or none. The destructor
// removes a file that still has the name.
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
// new one, which gets the same permissions. The destructor removes a new file that was not
// finished. Into pipes, devices and open descriptors, write() writes at once.
class OutputFile {
 public:
  // Opens the output, and creates the folders above a regular file. Throws InputError as
  // output_place(). Throws RunError if opening fails, or if a pipe has no reader within ten
  // seconds.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // These three throw RunError `path: cannot be written: why`. rewrite_begin() overwrites the first
  // bytes, which pipes and terminals do not allow. finish() completes the output and is called
  // last.
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
