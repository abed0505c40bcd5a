// Algorithms with a logarithmic number of steps.
//
// tree_all_reduce: two binary trees over the hosts, each for half of the chunks; the leaves of one
// have children in the other (Sanders, Speck and Traeff 2009). Inside a host the ranks are a chain
// down from the first. In 2 (k - 1 + log2 H) steps a chunk is summed up to the root and comes back,
// one chunk after the other (`chunks` in each tree). Of two hosts each sends the bytes once; of
// more some send them twice, which is what a ring sends. tree_broadcast: binomial, log2 n steps of
// all the bytes; tree_reduce: the same backwards.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds tree_all_reduce(Grid grid, int chunks);
// Returns such trees over the hosts only, for each place of a host with its own chunks. Of 2 k
// consecutive chunks, the first k go into one tree of their place, the others into the other.
Round trees_of_places(Grid grid, int chunks);
Rounds tree_broadcast(int ranks);
Rounds tree_reduce(int ranks);

}  // namespace meshwright
