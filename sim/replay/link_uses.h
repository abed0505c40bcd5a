// Finds out which links the communication of a timeline keeps busy.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/mesh.h"
#include "models/program/timeline.h"

namespace meshwright::sim {

// Returns the bytes that an instruction moves. For collectives they are the bytes that a rank sends
// in a ring of `members` ranks: 2 (n - 1) / n of the buffer for an all-reduce of n ranks, and (n -
// 1) / n of the larger buffer for an all-gather, a reduce-scatter and an all-to-all. For all other
// instructions, such as messages and copies to or from the host, they are all bytes of the larger
// of inputs and outputs.
double bytes_moved(const Instruction& instruction, int members);

// Returns when each rank of the timeline uses which kinds of links, with the bytes of
// bytes_moved().
std::vector<LinkUse> link_uses(const Timeline& timeline, const std::vector<Program>& stages,
                               const Mesh& mesh, const Topology& topology);

}  // namespace meshwright::sim
