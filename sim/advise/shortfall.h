// Says by how much a job misses its budget, its deadline or its memory if no rung has a plan, and
// what would do.
#pragma once

#include <string>
#include <vector>

#include "sim/advise/ladder.h"

namespace meshwright::sim {

// Returns some sentences, or "" if the reasons are others: "exceeds the budget by $3613: the
// cheapest is 8 x p4d.24xlarge, $18613, 10.2 h"; "no plan fits 16 A10G: 24 would do". `climbed` are
// the job's ladders, none of which has a plan. Searches again, without the limits or on more hosts.
std::string shortfall(const Job& job, const std::vector<Ladder>& climbed,
                      const LadderOptions& options);

}  // namespace meshwright::sim
