// Lets `launch` take the command line of another launcher, which it replaces.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace meshwright::tools {

struct ReplacedLauncher {
  std::vector<std::string> command = {};  // Python and the script, or the script alone
  std::string name = {};                  // empty if the command has no launcher
  std::optional<int> ranks = {};          // number of ranks that it would start, if known
  std::string lost = {};                  // its options without effect, separated by commas
};

// Separates torchrun (also as `python -m torch.distributed.run`), accelerate, deepspeed, mpirun,
// horovodrun or srun from the script that it would start. Returns any other command unchanged,
// without a name.
ReplacedLauncher replace_launcher(const std::vector<std::string>& command);

}  // namespace meshwright::tools
