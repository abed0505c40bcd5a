// Names and writes the files of `--dump`: the graph after each pass as text, one file per pass in
// order, and the Programs as JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/compiler/passes/pass.h"
#include "models/job/job.h"

namespace meshwright::session {

// Returns the files of the passes that run at the training's level: FOLDER/full/05-simplify.txt,
// ...
std::vector<std::string> dump_files(const std::string& folder, const Training& training);

// Throws InputError, beginning with `where`, if `folder` is a file, or if one of its files
// (Programs included) could not be written or is one of `inputs`.
void check_dump(const std::string& where, const std::string& folder, const Training& training,
                std::span<const std::string> inputs);

// Returns FOLDER/full/programs.json, to which `compile --dump` writes the Programs.
std::string programs_file(const std::string& folder, const Training& training);

// Returns an observer of one compilation at the training's level, which writes each pass's file
// after the pass.
PassObserver dump_into(const std::string& folder, const Training& training);

// Returns the folder to which compiler_config's `debug` writes these files: `compiler` in the job's
// log folder, or /opt/ml/output/data/compiler in SageMaker's containers. Throws InputError if there
// is neither.
std::string debug_folder(const Job& job);

}  // namespace meshwright::session
