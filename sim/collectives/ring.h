// Rings, flat ({1, n}) and hierarchical: a ring inside every host and, for each place in a host, a
// ring over the hosts ("rail"). With H hosts of k ranks the buffer has H k chunks and rank (h, j)
// owns chunk h k + j.
//
// On a uniform network a flat all-reduce takes 2 (n - 1) (latency + bytes / (n bandwidth)); the
// hierarchical one sends only 2 (H - 1) / (H k) of the bytes through each rank's NIC.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds ring_all_reduce(Grid grid);
Rounds ring_reduce_scatter(Grid grid);
Rounds ring_all_gather(Grid grid);
// Rings through all ranks, as many as use every NIC: the bytes of the one above, but each of the
// n - 1 steps waits for a network.
Rounds flat_ring_all_gather(Grid grid);

// One round (repeated) of a hierarchical algorithm, for those who combine them otherwise.
Round ring_inside(Grid grid, Combine combine);
Round ring_across(Grid grid, Combine combine);

}  // namespace meshwright
