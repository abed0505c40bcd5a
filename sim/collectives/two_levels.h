// Builds collectives from rings in two levels: inside every host, and between the hosts for each
// place in a host ("rail"). With H hosts of k ranks the buffer has H k chunks, and rank (h, j) owns
// chunk h k + j.
//
// Only 2 (H - 1) / H of the bytes of an all-reduce leave a host, 2 (H - 1) / (H k) of them through
// each rank. NCCL has no such algorithm. MPI ranks on CPU computers use it, and frameworks build it
// from two groups to gather weights.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright::sim {

Rounds two_level_all_reduce(Grid grid);
Rounds two_level_reduce_scatter(Grid grid);
Rounds two_level_all_gather(Grid grid);

// Return the repeated round of the rings inside the hosts, or of those between them. halving.h uses
// the former too.
Round ring_inside(Grid grid, Combine combine);
Round ring_across(Grid grid, Combine combine);

}  // namespace meshwright::sim
