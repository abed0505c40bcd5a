// The graph after each pass, as text: one file per pass, in order; and the Programs, as JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/compiler/passes/pass.h"
#include "models/job/job.h"

namespace meshwright {

// FOLDER/full/05-simplify.txt: the file of each pass that runs at the training's level.
std::vector<std::string> dump_files(const std::string& folder, const Training& training);

// InputError, beginning with `where`, when one of these files could not be written, or is one of
// `inputs`.
void check_dump(const std::string& where, const std::string& folder, const Training& training,
                std::span<const std::string> inputs);

// FOLDER/full/programs.json: what `compile --dump` makes of the Programs.
std::string programs_file(const std::string& folder, const Training& training);

// Writes each pass's file when its turn comes.
PassObserver dump_into(const std::string& folder, const Training& training);

// Where compiler_config's `debug` puts them: the job's log folder, in SageMaker's containers
// /opt/ml/output/data/compiler as there; neither: an InputError.
std::string debug_folder(const Job& job);

}  // namespace meshwright
