// Finds the machines that people mean: by name in any case, by group (`aws`, `p5`, `dgx`), by GPU,
// and by GPU and how many of them (`8xH100`, `A100-80GB x 16`).
#pragma once

#include <string>
#include <vector>

namespace meshwright::hwprofiles {

struct MachineWords {
  std::vector<std::string> machines;  // names; empty if the words mean no known machine
  int hosts = 0;                      // 0: the words do not say it
  int processes_per_host = 0;         // 0: one for each GPU of a host
  // Says to people how the words were read. Empty if they are the machine's own name, or mean no
  // known machine.
  std::string note;
};

// Returns the machines that `words` mean. A number of GPUs gets the machine that holds them in the
// fewest hosts: among several, one with a price, then the one with the fewest GPUs. Throws
// InputError for hardware that is known to have no profile (unprofiled.h), and for numbers that
// make no sense.
MachineWords machines_meant(const std::string& words);

}  // namespace meshwright::hwprofiles
