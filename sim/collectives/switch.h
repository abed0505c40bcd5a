// Builds an all-reduce by switches that sum up and multicast (NVLink SHARP, NVLS). Each rank of a
// host reads the sum of its share of the chunks from all other ranks, and then writes the sum to
// all of them, which makes two steps. Between hosts the sums go up and down two trees of hosts for
// each place in a host (NVLSTree).
//
// The rounds pass the shares around a ring, so that each link carries as many bytes as if they went
// straight between the ranks. The switch really moves fewer bytes. timing.h accounts for this by
// the rate of the machine's profile (nvls_efficiency).
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright::sim {

// Builds the all-reduce described above. `chunks` is the number of chunks of each place in each of
// its two trees, and is not used if there is only one host.
Rounds switch_all_reduce(Grid grid, int chunks);

}  // namespace meshwright::sim
