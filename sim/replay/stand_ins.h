// Which rank's entries in a folded timeline are those of each rank.
#pragma once

#include <vector>

#include "hwprofiles/machine.h"
#include "models/program/program.h"

namespace meshwright {

// [rank]: the rank that stands for it in the timeline of replay() on that cluster.
std::vector<int> stand_ins(const std::vector<Program>& stages, const Cluster& cluster);

}  // namespace meshwright
