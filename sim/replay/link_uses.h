// Finds out which links the communication of a timeline keeps busy.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/mesh.h"
#include "models/program/timeline.h"

namespace meshwright::sim {

// Returns the bytes that an instruction moves. For a collective they are what a rank sends in a
// ring of `members` (all-reduce: 2 (n - 1) / n of the buffer, all-gather, reduce-scatter and
// all-to-all: (n - 1) / n of the larger one). For a message they are the bytes at either end, and
// for a copy to or from the host all of its bytes.
double bytes_moved(const Instruction& instruction, int members);

// Returns when each kind of link is in use, with the bytes of bytes_moved().
std::vector<LinkUse> link_uses(const Timeline& timeline, const std::vector<Program>& stages,
                               const Mesh& mesh, const Topology& topology);

}  // namespace meshwright::sim
