// The cores that this process may use, which are often fewer than the computer's.
#pragma once

#include <string>

namespace meshwright {

// Those of its affinity mask, and no more than the CPU quota of its control group and of those
// around it (cgroup v1 or v2) pays for; a part of a core counts as one. At least 1. `root`: the
// folder that holds proc/ and sys/.
int usable_cores(const std::string& root = "/");

}  // namespace meshwright
