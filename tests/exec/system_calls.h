// System calls on what lies below a folder: listed, and one of them made to fail or to be the
// process's last. A program that links this has its own open(), write(), rename(), ..., which the
// library's are behind; they do nothing else while nobody watches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright::tests {

struct SystemCall {
  std::string name;  // "open", "pwrite", "fsync", ...
  std::string path;  // of the descriptor too
  std::string to;    // rename's
  std::int64_t offset = 0;
  std::string data;    // what is written
  bool makes = false;  // open: makes the file or empties it
  bool good = false;   // it succeeded
};

struct Fault {
  enum class Kind {
    none,
    error,  // the call does nothing and fails with `error`
    kill,   // the process ends before the call
    tear    // a write does half its work, and the process ends; other calls as `kill`
  };
  Kind kind = Kind::none;
  std::size_t call = 0;  // the number of the call, from 0
  int error = 0;
};

// While it lives, the calls of all threads below `folder` are watched; one at a time.
class WatchedCalls {
 public:
  explicit WatchedCalls(const std::string& folder, const Fault& fault = {});
  ~WatchedCalls();
  WatchedCalls(const WatchedCalls&) = delete;
  WatchedCalls& operator=(const WatchedCalls&) = delete;

  std::vector<SystemCall> seen() const;
};

}  // namespace meshwright::tests
