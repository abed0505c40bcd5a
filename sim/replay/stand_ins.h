// Finds for each rank the rank that represents it in a folded timeline.
#pragma once

#include <vector>

#include "hwprofiles/machine.h"
#include "models/program/program.h"

namespace meshwright::sim {

// Returns for each rank the rank that represents it in the timeline of replay() on this cluster, if
// ranks are folded.
std::vector<int> stand_ins(const std::vector<Program>& stages, const Cluster& cluster);

}  // namespace meshwright::sim
