// Reports how far a search is: to a program that watches it as JSON lines on standard error, to
// people as a line on their terminal.
#pragma once

#include "sim/planner/search.h"
#include "tools/options.h"

namespace meshwright {

// Returns the watch of a search. With --watched it writes lines {"progress": {machine, count,
// candidates_enumerated, candidates_simulated, bounded, best_step_time_s}}, one whenever the search
// turns to another cluster, and at most ten a second for the same cluster. Without --watched it
// shows a ProgressLine for each cluster, which is cleared when the watch is destroyed.
SearchWatch search_watch(const Options& options);

}  // namespace meshwright
