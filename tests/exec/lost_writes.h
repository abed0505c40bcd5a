// Predicts what a disk may hold if the power fails during recorded calls: everything that fsync
// forced to it, and any part of the rest. A file's fsync keeps its data, a folder's fsync its
// entries, that is, what was made, renamed or removed in it. Writes that were not forced may be
// lost, torn and reordered.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/exec/saved_scene.h"
#include "tests/exec/system_calls.h"

namespace meshwright::tests {

class LostWrites {
 public:
  // `before` is the folder as it was, all of it on the disk. `calls` were recorded while watching
  // `folder`.
  LostWrites(const Contents& before, const std::string& folder,
             const std::vector<SystemCall>& calls);

  std::size_t crash_points() const { return calls_ + 1; }
  // Returns how many changes the first `calls` calls make that are not forced to the disk.
  std::size_t unforced(std::size_t calls) const;

  enum class Fate { lost, torn, kept };  // an unforced change's; only data are torn
  // Returns what the folder may hold if the power fails after `calls` calls. `fate` is called for
  // each unforced change, numbered from 0.
  Contents left(std::size_t calls, const std::function<Fate(std::size_t)>& fate) const;

 private:
  struct Node {
    bool is_folder = false;
    std::string data;
    std::map<std::string, int> entries;
  };
  using Disk = std::vector<Node>;  // the first one is the folder
  struct Change {
    enum class Kind { data, size, entry, move };
    Kind kind = Kind::data;
    int node = 0;                      // the file of the data, or the entry's folder
    int target = -1;                   // the entry's node; -1: it is removed
    std::string name, to, bytes;       // entry's name, a move's target; data
    std::int64_t offset = 0;           // or the new size
    std::size_t call = 0, forced = 0;  // when it was made, when it was forced to the disk
  };

  int find(const Disk& disk, const std::string& path) const;
  int folder_of(const Disk& disk, const std::string& path) const;
  void add(const SystemCall& call, std::size_t number);
  void make(Change change);
  static void apply(const Change& change, Fate fate, Disk& disk);

  std::string root_;
  Disk begin_, now_;
  std::map<std::string, int> open_;  // by path when it was opened
  std::vector<Change> changes_;
  std::size_t calls_;
};

}  // namespace meshwright::tests
