// Runs a training script on GPUs that are not there (tools/stand_in), and records one of its steps.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright::tools {

// The GPUs that the script sees.
struct StandInGpus {
  hwprofiles::Machine machine;
  int hosts = 0;               // 0: as many as the command line says, or needs
  double imbalance = 1;        // tokens of the fullest expert, relative to the mean
  int time_limit_s = 600;      // that a script may take without a step
  bool write_through = false;  // the script's files go where it writes them
};

// The script has said why.
struct ScriptFailed {
  int exit_code;
};

// Runs rank 0 of `command`: Python and a script, a launcher's command line, or a shell script of
// one. What the script prints goes to standard error. `program` is this executable's path, beside
// which the package lies. Returns the recording's text. Throws InputError if the machine cannot be
// rehearsed or the script was ended, and ScriptFailed if the command is wrong, the script failed or
// made too few steps.
std::string record_script(const std::string& program, const std::vector<std::string>& command,
                          const StandInGpus& gpus);

}  // namespace meshwright::tools
