// How far a search is: for a program that watches it JSON lines on standard error, for people a
// line on their terminal.
#pragma once

#include "sim/planner/search.h"
#include "tools/options.h"

namespace meshwright {

// {"progress": {machine, count, candidates_enumerated, candidates_simulated, bounded,
// best_step_time_s}}: of each cluster when its search begins, then ten a second at most. Without
// --watched a ProgressLine of each cluster, which ends with the watch.
SearchWatch search_watch(const Options& options);

}  // namespace meshwright
