// Finds the plans that are worth a look when both time and money count.
#pragma once

#include <vector>

#include "sim/planner/search.h"

namespace meshwright {

// Marks the plans that no other beats in both step time and dollars per token (a tie in one and a
// win in the other beats too). If a machine has no price, GPU seconds stand for dollars.
void mark_pareto(std::vector<RankedPlan>& plans);

}  // namespace meshwright
