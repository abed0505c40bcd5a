// Which links the communication of a timeline keeps busy.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/mesh.h"
#include "models/program/timeline.h"

namespace meshwright {

// Of a collective the bytes that a rank sends in a ring of `members` (all-reduce: 2 (n - 1) / n of
// the buffer, all-gather, reduce-scatter and all-to-all: (n - 1) / n of the larger one), of a
// message those of either end, of a copy to or from the host all.
double bytes_moved(const Instruction& instruction, int members);

// Those bytes over each kind of link on the way.
std::vector<LinkUse> link_uses(const Timeline& timeline, const std::vector<Program>& stages,
                               const Mesh& mesh, const Topology& topology);

}  // namespace meshwright
