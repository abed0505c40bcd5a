// Runs a user's Python script as a child process. A module of the Python package, the front, runs
// first and starts the script.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright::tools {

// Returns `python [options] FRONT script ARGS` for the command `python [options] script ARGS`. A
// command that begins with the script, with `-m`, or with `python` or `python3` without a path runs
// with the Python that MESHWRIGHT_PYTHON names, if it is set. Returns an empty command for anything
// but a Python script or module.
std::vector<std::string> behind_front(std::vector<std::string> command,
                                      const std::vector<std::string>& front);

// Runs a command to its end in a child process, after `prepare` there. Returns its exit code, or
// run_failed if a signal ended it, or `not_started` if its program cannot be executed. Throws
// RunError if no child process can be made.
int run_child(std::vector<std::string> command, int not_started,
              const std::function<void()>& prepare);

}  // namespace meshwright::tools
