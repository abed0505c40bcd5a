// Finds out how many cores this process may use, which are often fewer than the computer's.
#pragma once

#include <string>

namespace meshwright::hwprofiles {

// Returns the number of usable cores, at least 1: the cores of the process's affinity mask, limited
// by the CPU quotas of its control group and of the groups around it (cgroup v1 or v2). A quota is
// rounded up to whole cores. `root` is the folder that holds proc/ and sys/.
int usable_cores(const std::string& root = "/");

}  // namespace meshwright::hwprofiles
