// Builds algorithms with a logarithmic number of steps.
//
// tree_all_reduce: two binary trees over H hosts of k ranks, each for half of the chunks, so that
// the leaves of one tree have children in the other (Sanders, Speck and Traeff 2009). Inside a host
// the ranks are a chain down from the first one. A chunk is summed up to the root and comes back in
// 2 (k - 1 + floor(log2 H)) steps, one chunk after the other (`chunks` in each tree). If there are
// two hosts, each sends the bytes once. If there are more, some hosts send them twice, as in a
// ring.
//
// tree_broadcast: a binomial tree, in ceil(log2 n) steps of all the bytes for n ranks. tree_reduce:
// the same tree backwards.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright::sim {

Rounds tree_all_reduce(Grid grid, int chunks);
// Returns the round of the two trees of an all-reduce over the hosts only. Each of the k places of
// a host has trees and chunks of its own. Among 2 k consecutive chunks, the first k go into the
// first tree of their place, one for each place, and the others into the second.
Round trees_of_places(Grid grid, int chunks);
Rounds tree_broadcast(int ranks);
Rounds tree_reduce(int ranks);

}  // namespace meshwright::sim
