// The folder of a run's checkpoints: `step-00000010/` for each, `step-00000012.part/` while one is
// written, `lock`, which the run holds, and `began-with-imported-weights` where they were imported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/manifest.h"

namespace meshwright {

struct StepFolder {
  std::int64_t step = 0;
  std::string path;
};

std::string step_folder(const std::string& folder, std::int64_t step);
std::string part_folder(const std::string& folder, std::int64_t step);

// Returns the steps that have a folder, valid or not, the newest first. The list is empty if there
// is no folder. Throws RunError if the folder cannot be read.
std::vector<StepFolder> step_folders(const std::string& folder);

// Completes a checkpoint whose shards are on the disk: writes its manifest into the .part folder,
// gives that its final name, then removes checkpoints older than the `keep` newest of this run,
// except its base and its best. Throws RunError if the checkpoint could not be completed. Returns
// an error about what could not be removed afterwards, or an empty string. Never removes or
// replaces what it cannot read.
std::string commit(const std::string& folder, const Manifest& manifest, int keep);

// Returns whether the run in this folder began with imported weights. No seed can recreate these,
// so such a run must not begin anew. The mark says so, or, if it is lost, the manifest of any
// checkpoint or the folder of step 0, which only imported weights have. Throws RunError if the
// folder cannot be read.
bool began_with_imported_weights(const std::string& folder);
// Makes the mark, and the folder if it is missing. Throws RunError if that fails.
void mark_as_imported(const std::string& folder);
inline constexpr std::string_view import_mark = "began-with-imported-weights";

void remove_part_folders(const std::string& folder);  // left behind by a run that was killed

// Locks a folder for this process until it ends, however it ends. Makes the folder. Throws
// InputError if another process holds the lock, or if nothing can be written there.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace meshwright
