// Builds an all-reduce by switches that sum up and multicast (NVLink SHARP, NVLS). Each rank of a
// host reads the sum of its share of the chunks from all other ranks, and then writes the sum to
// all of them, which makes two steps. Between hosts the sums go up and down two trees of hosts for
// each place (NVLSTree).
//
// The rounds pass the shares around a ring, so that each link carries as many bytes as if they went
// straight between the ranks. The switch moves fewer bytes. The profile says which share of the
// bandwidth it reaches (nvls_efficiency).
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright::sim {

Rounds switch_all_reduce(Grid grid, int chunks);  // for each place in each of two trees

}  // namespace meshwright::sim
