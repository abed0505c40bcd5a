// Compiled kernels on disk, found by content: a file's name is the SHA-256 of the source, the
// architecture and the compiler's version, so nothing in the folder is ever out of date. Choices
// that were made by timing (products.h) are kept in the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace meshwright::cuda {

struct KernelKey {
  std::string source, architecture, compiler;
  std::string hash() const;  // 64 hexadecimal digits
};

// Any number of processes may share a folder: a file appears whole or not at all, and of those who
// make a content at once all take the first one's. A command gives
// $XDG_CACHE_HOME/meshwright/kernels.
class KernelCache {
 public:
  // Makes the folder; InputError where that is impossible. When more than `most_bytes` lie in it,
  // what was used longest ago is removed.
  KernelCache(std::string folder, std::int64_t most_bytes);

  // Returns what `make` once returned for the key, in this process or another. A damaged file is
  // made again. If a file cannot be written (a full disk), that is no error: the kernel is made
  // again the next time.
  std::string get(const KernelKey& key, const std::function<std::string()>& make);

  std::string path(const KernelKey& key) const;  // of the key's file, there or not

  struct Counts {
    std::int64_t hits = 0, misses = 0, damaged = 0, not_stored = 0;  // damaged ones are misses too
  };
  const Counts& counts() const { return counts_; }

 private:
  bool store(const std::string& path, const std::string& content, bool replaces) const;
  void remove_oldest(const std::string& except) const;

  std::string folder_;
  std::int64_t most_bytes_;
  Counts counts_;
};

}  // namespace meshwright::cuda
