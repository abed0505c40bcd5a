// A file in this process's memory, which its children open by a path. The launcher and a rank hand
// each other data in it. No other user except root can read or replace it, no folder needs room for
// it, and nothing is left behind, however the process ends.
#pragma once

#include <string>
#include <string_view>

namespace meshwright::exec {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content = "");  // throws RunError
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const;  // as long as this lives, for processes of this computer and user

 private:
  int descriptor_ = -1;
};

}  // namespace meshwright::exec
