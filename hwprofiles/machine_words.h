// Finds the machines that people mean: by name in any case, by group (`aws`, `p5`, `dgx`), by GPU,
// and by GPU and how many of them (`8xH100`, `A100-80GB x 16`).
#pragma once

#include <string>
#include <vector>

namespace meshwright::hwprofiles {

struct MachineWords {
  std::vector<std::string> machines;  // none: nothing is known of the words
  int hosts = 0;                      // 0: the words do not say it
  int processes_per_host = 0;         // 0: one for each GPU of a host
  // How the words were read, for people, if it is not the machine's own name. Empty otherwise.
  std::string note;
};

// Returns the machines that `words` mean. A number of GPUs gets the machine whose hosts hold them
// with fewest GPUs left over, one with a price before others. Throws InputError for names of other
// clouds' instances. The message names the nearest machine that has a profile.
MachineWords machines_meant(const std::string& words);

}  // namespace meshwright::hwprofiles
