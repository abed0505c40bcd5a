// Rings in two levels: inside every host, and for each place in a host over the hosts ("rail").
// With H hosts of k ranks the buffer has H k chunks and rank (h, j) owns chunk h k + j.
//
// Only 2 (H - 1) / H of the bytes of an all-reduce leave a host, 2 (H - 1) / (H k) of them through
// each rank. NCCL has no such algorithm of its own; it is what MPI ranks on CPU computers do, and
// what frameworks build from two groups to gather weights.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds two_level_all_reduce(Grid grid);
Rounds two_level_reduce_scatter(Grid grid);
Rounds two_level_all_gather(Grid grid);

// One round (repeated), for those who combine them otherwise.
Round ring_inside(Grid grid, Combine combine);
Round ring_across(Grid grid, Combine combine);

}  // namespace meshwright
