// Runs a training script on GPUs that are not there (tools/stand_in), and records one of its steps.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright::tools {

// The GPUs that the script sees.
struct StandInGpus {
  hwprofiles::Machine machine;
  int hosts = 1;
};

// The script has said why.
struct ScriptFailed {
  int exit_code;
};

// Runs `command` (Python and a script, or a launcher's command line, whose place it takes) as rank
// 0 of as many ranks as the launcher was asked for, or else of one. What the script prints goes to
// standard error. `program` is this executable's path, beside which the package lies. Returns the
// recording's text. Throws InputError if the script or the machine cannot be rehearsed, and
// ScriptFailed if the script failed or made too few steps.
std::string record_script(const std::string& program, const std::vector<std::string>& command,
                          const StandInGpus& gpus);

}  // namespace meshwright::tools
