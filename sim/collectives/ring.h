// Rings through all ranks of a group, host after host: every host is entered and left once. A
// buffer has as many chunks as ranks, and rank r owns chunk r.
//
// On a uniform network an all-reduce takes 2 (n - 1) (latency + bytes / (n bandwidth)), each of its
// halves half of that. Over hosts 2 (n - 1) / n of the bytes leave each host, whatever the number
// of ranks in it, and of the steps that wait for each other one per host waits for the network.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds ring_all_reduce(int ranks, int hosts = 1);
Rounds ring_reduce_scatter(int ranks, int hosts = 1);
Rounds ring_all_gather(int ranks, int hosts = 1);

}  // namespace meshwright
