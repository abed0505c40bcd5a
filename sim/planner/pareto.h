// Finds the plans that matter when both time and money count.
#pragma once

#include <vector>

#include "sim/planner/search.h"

namespace meshwright::sim {

// Marks the plans that no other plan beats. A plan beats another if it is at least as good in both
// step time and dollars per token, and better in one of them. If any plan has no price, GPU seconds
// per step replace dollars.
void mark_pareto(std::vector<RankedPlan>& plans);

}  // namespace meshwright::sim
