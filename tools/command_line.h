// meshwright COMMAND JOB [options]: the whole command line, and what of it the environment says.
#pragma once

#include <string>
#include <vector>

#include "tools/options.h"

namespace meshwright {

Options options_from_environment();

// Runs what the arguments after the program's name say; the exit code. Throws what the command
// throws, and InputError where there is no such command.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace meshwright
