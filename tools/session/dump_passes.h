// Names the files of `compile --dump` and of compiler_config's `debug`, and writes the graph after
// each pass. There is one text file per pass, numbered in order, and one JSON file of the Programs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/compiler/passes/pass.h"
#include "models/job/job.h"

namespace meshwright::session {

// Returns the files of the passes that run at the training's level, such as
// FOLDER/full/05-simplify.txt.
std::vector<std::string> dump_files(const std::string& folder, const Training& training);

// Throws InputError, beginning with `where`, if `folder` is a file, or if one of its files (that of
// the Programs included) cannot be written or is one of `inputs`.
void check_dump(const std::string& where, const std::string& folder, const Training& training,
                std::span<const std::string> inputs);

// Returns the file to which `compile --dump` writes the Programs, such as
// FOLDER/full/programs.json.
std::string programs_file(const std::string& folder, const Training& training);

// Returns an observer for one compilation at the training's level. It writes each pass's file after
// the pass.
PassObserver dump_into(const std::string& folder, const Training& training);

// Returns the folder to which compiler_config's `debug` writes these files: `compiler` in the job's
// log folder, or /opt/ml/output/data/compiler in SageMaker's containers. Throws InputError if there
// is neither.
std::string debug_folder(const Job& job);

}  // namespace meshwright::session
