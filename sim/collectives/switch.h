// All-reduce by switches that sum up and send to many (NVLink SHARP, NVLS): each rank of a host
// reads the sum of its share of the chunks from all others and writes it to all others, two steps.
// Over hosts the sums go up and down trees from host to host, one for each place (NVLSTree).
//
// As rounds the shares go around a ring, as many bytes through each link as if they went straight
// between the ranks. The switch moves less than that; what it reaches of the bandwidth is in the
// profile.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds switch_all_reduce(Grid grid, int chunks);  // for each place in each of two trees

}  // namespace meshwright
