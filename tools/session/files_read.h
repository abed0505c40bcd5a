// Lists the files that a command reads, because none of them may be an output of the command.
#pragma once

#include <string>
#include <vector>

#include "models/job/job.h"
#include "tools/options.h"

namespace meshwright {

// Returns the files that a command reads: its operands, those of --profile, --prices, --hostfile
// and --measured, and those that the job names. check_writable() refuses each of them as an output.
std::vector<std::string> files_read(const Options& options, const Job& job);

}  // namespace meshwright
