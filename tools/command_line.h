// Runs commands: those of the command line `meshwright COMMAND JOB [options]`, and those that
// another program calls.
#pragma once

#include <string>
#include <vector>

#include "tools/call.h"
#include "tools/options.h"

namespace meshwright::tools {

Options options_from_environment();

// Runs the command that `arguments` name: the words after the program's name. Returns the exit
// code, which is 2 without arguments. Throws what the command throws, and InputError if the command
// or one of its options is unknown or has a wrong value.
int run_command_line(const std::vector<std::string>& arguments);

// Runs the command of a call and returns what it prints on standard output with --json. Throws what
// the command throws. Throws InputError if there is no such command or option, if an option has a
// wrong value, or if the command has no `answer`.
std::string answer_of(const Call& call, const Watch& watch);

}  // namespace meshwright::tools
