// Finds the files that were published with a model's weights (its configuration, its settings for
// generation and its tokenizer), and keeps them from import to export.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "tools/session/watch.h"

namespace meshwright::session {

// Returns the existing folders that may hold such files, the nearest first: that of the weights
// that `given` or the job names, the one that `import-weights` keeps beside a run's checkpoints,
// and that of the job's model.
std::vector<std::string> published_folders(const Job& job, const std::string& given);

// Names the folder, inside the folder of a run, in which `import-weights` keeps such files.
inline constexpr const char* published_folder = "published";

// Copies the files that were published beside the weights `from`, a folder or a file in it, into
// the folder of a run. Existing files are replaced. Throws RunError for a file that cannot be
// copied.
void keep_published(const std::string& from, const std::string& run_folder);

// Returns the folder that the files of an exported model come from: the first of `folders` that has
// a config.json. Returns "" if none has.
std::string source_of_published(const std::vector<std::string>& folders);

// Returns `config`, which was written for the job's model, with the keys of the published
// config.json in `folder` that it does not have. If that file describes another model than the
// job's, or one that cannot be read, no key is taken, and `watch` is warned. Quantization is left
// out, because exported weights are fp32.
nlohmann::json with_published_keys(nlohmann::json config, const std::string& folder, const Job& job,
                                   const Watch& watch);

// Copies the files for generation and of the tokenizer from `folder` to the folder `to` and returns
// their names. Existing files stay as they are, and are not among these names. Throws RunError for
// a file that cannot be copied.
std::vector<std::string> copy_published(const std::string& folder, const std::string& to);

}  // namespace meshwright::session
