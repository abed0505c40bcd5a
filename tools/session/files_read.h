// Lists the files that a call reads, because none of them may be an output of it.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"

namespace meshwright::session {

// Returns the files that a call reads: those that its caller names, `given`, the job's file with
// the files of settings that it names, the file of its model, and those of its data.
// check_writable() refuses each of them as an output.
std::vector<std::string> files_read(std::vector<std::string> given, const Job& job);

}  // namespace meshwright::session
