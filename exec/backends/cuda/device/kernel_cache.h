// Compiled kernels on disk. A file's name is the SHA-256 of the source, the architecture and the
// compiler's version, so no file is ever out of date. Choices that were made by timing (products.h,
// attention_library.h) are kept in the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace meshwright::exec::cuda {

struct KernelKey {
  std::string source, architecture, compiler;
  std::string hash() const;  // 64 hexadecimal digits
};

// A cache in a folder, which any number of processes may share. A file appears whole or not at all.
// If several processes make a missing file at once, all use the one that was written first, if the
// file system has hard links.
class KernelCache {
 public:
  // Makes the folder. Throws InputError if that is impossible. After each file that is written, the
  // least recently used other files are removed until those left hold at most `most_bytes` bytes
  // together.
  KernelCache(std::string folder, std::int64_t most_bytes);

  // Returns what `make` once returned for the key, in this process or another. If there is no file
  // yet, or a damaged one, calls `make` and writes the file. A file that cannot be written (a full
  // disk) is not an error: a later get() calls `make` again.
  std::string get(const KernelKey& key, const std::function<std::string()>& make);

  std::string path(const KernelKey& key) const;  // path of the key's file, which may not exist

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

}  // namespace meshwright::exec::cuda
