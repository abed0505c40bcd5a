// Reads how many hosts and processes a run has from the options of what starts it
// (shell/starters.h).
#pragma once

#include "tools/interop/rules.h"

namespace meshwright::interop {

// Returns the rule for cluster.count and cluster.processes_per_host. Every framework that is
// started by a command has it, first of all its rules.
Rule cluster_sizes_rule();

}  // namespace meshwright::interop
