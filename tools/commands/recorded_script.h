// Runs a training script on simulated GPUs (tools/stand_in), and records one of its steps.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright::tools {

// Describes the GPUs that the script sees, and how it is run.
struct StandInGpus {
  hwprofiles::Machine machine;
  int hosts = 0;               // 0: as many as the command line asks for, or needs
  double imbalance = 1;        // tokens of the most loaded expert / the mean
  int time_limit_s = 600;      // seconds that a script may take without a step
  bool write_through = false;  // the script's files go where it writes them
};

// Is thrown if the script failed or cannot be recorded. The reason has been printed.
struct ScriptFailed {
  int exit_code;
};

// Runs rank 0 of `command`: Python and a script, a launcher's command line, or a shell script of
// one. What the script prints goes to standard error. `program` is this executable's path, beside
// whose folder `python` the package is found. Returns the recording's text. Throws InputError if
// the machine cannot be simulated, Python cannot be started, or the process ended early. Throws
// ScriptFailed with any other exit code.
std::string record_script(const std::string& program, const std::vector<std::string>& command,
                          const StandInGpus& gpus);

}  // namespace meshwright::tools
