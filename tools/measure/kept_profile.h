// Names the file in which a quick profile of this computer is kept for the day.
#pragma once

#include <string>

#include "tools/options.h"

namespace meshwright::tools {

// Returns the file, below meshwright/profiles in the user's cache folder. Its name has the date and
// a hash of what a profile depends on: the processor, the GPUs, cores, threads and this program.
// Removes files of other days. Returns "" if there is no cache folder.
std::string kept_profile_file(const Options& options);

}  // namespace meshwright::tools
