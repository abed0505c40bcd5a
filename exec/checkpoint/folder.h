// The folder of a run's checkpoints. It holds `step-00000010/` for each checkpoint,
// `step-00000012.part/` while one is written, `lock`, which the writing process locks, and the file
// `began-with-imported-weights` if the run began with imported weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/manifest.h"

namespace meshwright::exec {

struct StepFolder {
  std::int64_t step = 0;
  std::string path;
};

std::string step_folder(const std::string& folder, std::int64_t step);
std::string part_folder(const std::string& folder, std::int64_t step);

// Returns the entries of the folder that are named like a checkpoint, the newest step first. Their
// contents may be damaged. The list is empty if the folder does not exist. Throws RunError if the
// folder cannot be read.
std::vector<StepFolder> step_folders(const std::string& folder);

// Completes a checkpoint whose shards are on the disk. Writes its manifest into the .part folder,
// renames that folder to its final name, then removes checkpoints older than the `keep` newest of
// this run, except its base and its best. A folder that already has the final name is replaced if
// its manifest is missing or damaged or if it is of this run, and renamed if it is of another run.
// Throws RunError if the checkpoint could not be completed. Returns an error about replaced or
// older checkpoints that could not be removed afterwards, or an empty string. Never removes or
// replaces a checkpoint whose manifest the system does not let it read.
std::string commit(const std::string& folder, const Manifest& manifest, int keep);

// Returns whether the run in this folder began with imported weights. No seed can recreate these,
// so such a run must not begin anew. The file `import_mark` shows it. If that file is lost, the
// manifest of a checkpoint may show it, or the folder of step 0, which only an import writes.
// Throws RunError if the folder or a manifest cannot be read.
bool began_with_imported_weights(const std::string& folder);
// Writes the file `import_mark`, by which began_with_imported_weights() knows such a run, and makes
// the folder if it is missing. Throws RunError if that fails.
void mark_as_imported(const std::string& folder);
inline constexpr std::string_view import_mark = "began-with-imported-weights";

void remove_part_folders(const std::string& folder);  // left by a killed run: step-*.part

// Locks a folder for this process until the object is destroyed or the process ends, however it
// ends. Makes the folder if it is missing. Throws InputError if another process holds the lock, or
// if nothing can be written there.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace meshwright::exec
