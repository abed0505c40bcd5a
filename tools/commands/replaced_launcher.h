// Lets `launch` take the command line of another launcher, whose place it takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace meshwright::tools {

struct ReplacedLauncher {
  std::vector<std::string> command = {};  // Python and the script, or the script alone
  std::string name = {};                  // empty if the command has no launcher
  std::optional<int> ranks = {};          // that it was asked for, if its options say a number
  std::string lost = {};                  // its other options, separated by commas
};

// Separates torchrun (also as `python -m torch.distributed.run`), accelerate, deepspeed, mpirun,
// horovodrun or srun from the script that it would start. Any other command is returned as it is.
ReplacedLauncher replace_launcher(const std::vector<std::string>& command);

}  // namespace meshwright::tools
