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

// The steps that have a folder, newest first, good or not; none where there is no folder. RunError
// when it cannot be read.
std::vector<StepFolder> step_folders(const std::string& folder);

// Ends a checkpoint whose shards are on the disk: writes its manifest into the .part folder, gives
// that its final name, then removes what is older than the `keep` newest of this run and is neither
// its base nor its best. RunError: it is not complete. What is returned is empty, or says what
// could not be removed afterwards. Nothing that cannot be read is removed or replaced.
std::string commit(const std::string& folder, const Manifest& manifest, int keep);

// Whether the run in this folder began with imported weights: no seed makes these again, so such a
// run must not begin anew. The mark says so, and where that is lost the manifest of any checkpoint,
// or the folder of step 0, which only imported weights have. RunError when it cannot be read.
bool began_with_imported_weights(const std::string& folder);
// Makes the mark, and the folder where it is missing. RunError.
void mark_as_imported(const std::string& folder);
inline constexpr std::string_view import_mark = "began-with-imported-weights";

void remove_part_folders(const std::string& folder);  // left behind by a run that was killed

// Holds a folder for this process until it ends, however it ends; makes the folder. InputError when
// another process holds it, or when nothing can be written there.
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
