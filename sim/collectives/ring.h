// Builds collectives in a ring through all ranks of a group, host after host, so that each host is
// entered and left once. A buffer has as many chunks as there are ranks, and rank r owns chunk r.
//
// On a uniform network an all-reduce of n ranks takes 2 (n - 1) (latency + bytes / (n bandwidth)),
// and a reduce-scatter or an all-gather half of that. Between hosts 2 (n - 1) / n of the bytes of
// an all-reduce leave each host, whatever the number of its ranks. Among the n - 1 steps of each
// half, at most as many wait for the network as there are hosts, and the others stay inside hosts.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright::sim {

Rounds ring_all_reduce(int ranks, int hosts = 1);
Rounds ring_reduce_scatter(int ranks, int hosts = 1);
Rounds ring_all_gather(int ranks, int hosts = 1);

}  // namespace meshwright::sim
