// Parses and runs the command line `meshwright COMMAND JOB [options]`.
#pragma once

#include <string>
#include <vector>

#include "tools/options.h"

namespace meshwright {

Options options_from_environment();

// Runs the command that `arguments`, the words after the program's name, call, and returns the exit
// code. Throws what the command throws, and InputError if there is no such command.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace meshwright
