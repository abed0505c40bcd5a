// Lists the files that a call reads, because none of them may be an output of it.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"

namespace meshwright::session {

// Returns the files that a call reads: those that its caller names, `given`, and those that the job
// names. check_writable() refuses each of them as an output.
std::vector<std::string> files_read(std::vector<std::string> given, const Job& job);

}  // namespace meshwright::session
