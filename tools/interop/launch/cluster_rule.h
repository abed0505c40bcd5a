// Reads how many hosts and processes a run has from the options of the commands that start it
// (shell/starters.h) and from lists of hosts.
#pragma once

#include "tools/interop/rules.h"

namespace meshwright::interop {

// Returns the rule for cluster.count and cluster.processes_per_host. Targets list it before the
// rules that need the number of ranks. Exports write nothing by it, because the launchers write
// these numbers.
Rule cluster_sizes_rule();

}  // namespace meshwright::interop
