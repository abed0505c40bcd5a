// Records the system calls on files below a folder, and makes one of them fail or be the last one
// of the process. A program that links this file has its own open(), write(), rename(), ..., which
// call the C library's. If nobody watches, they do nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright::tests {

struct SystemCall {
  std::string name;  // "open", "pwrite", "fsync", ...
  std::string path;  // also for calls with a descriptor
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

// While an object lives, the calls of all threads below `folder` are watched. There may be one
// object at a time.
class WatchedCalls {
 public:
  explicit WatchedCalls(const std::string& folder, const Fault& fault = {});
  ~WatchedCalls();
  WatchedCalls(const WatchedCalls&) = delete;
  WatchedCalls& operator=(const WatchedCalls&) = delete;

  std::vector<SystemCall> seen() const;
};

}  // namespace meshwright::tests
