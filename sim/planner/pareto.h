// Finds the plans that are worth a look when both time and money count.
#pragma once

#include <vector>

#include "sim/planner/search.h"

namespace meshwright::sim {

// Marks the plans that no other plan beats in both step time and dollars per token. A plan also
// beats another if it ties in one of them and wins in the other. If any plan has no price, GPU
// seconds stand for dollars.
void mark_pareto(std::vector<RankedPlan>& plans);

}  // namespace meshwright::sim
