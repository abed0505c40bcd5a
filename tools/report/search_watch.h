// Reports how far a search is: to a program as JSON, to people as a line on their terminal.
#pragma once

#include <functional>
#include <string>

#include "sim/planner/search.h"

namespace meshwright::tools {

// Returns a watch that shows a ProgressLine for each cluster. The lines are cleared when the watch
// is destroyed.
SearchWatch watch_on_terminal();

// Returns a watch that gives `say` lines {"progress": {machine, count, candidates_enumerated,
// candidates_simulated, bounded, best_step_time_s}}. It gives one whenever the search turns to
// another cluster, and at most ten per second for the same cluster.
SearchWatch watch_in_lines(std::function<void(const std::string& line)> say);

}  // namespace meshwright::tools
