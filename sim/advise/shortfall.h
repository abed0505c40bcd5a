// Explains a job for which no rung of a ladder has a plan: by how much it misses its budget, its
// deadline or the memory, and what would be enough.
#pragma once

#include <string>
#include <vector>

#include "sim/advise/ladder.h"

namespace meshwright::sim {

// Returns a text of some lines, or "" if the job fails for other reasons: "exceeds the budget by
// $3613: the cheapest is 8 x p4d.24xlarge, 10.2 h, $18613"; "no plan fits 16 g5.48xlarge: 24 would
// do (3 hosts)". `climbed` are the job's ladders, none of which has a plan. Searches again, without
// the limits or on more hosts.
std::string shortfall(const Job& job, const std::vector<Ladder>& climbed,
                      const LadderOptions& options);

}  // namespace meshwright::sim
