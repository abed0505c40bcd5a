// Algorithms with a logarithmic number of steps.
//
// halving_all_reduce: inside the hosts rings; over the hosts recursive halving, then doubling
// (Thakur, Rabenseifner and Gropp 2005): 2 log2 H steps and the bytes of a ring. It stands for the
// double binary tree of NCCL, whose steps and bytes grow alike. Hosts beyond a power of two fold
// theirs into a partner's. tree_broadcast: binomial, log2 n steps of all the bytes;
// tree_reduce: the same backwards.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds halving_all_reduce(Grid grid);
Rounds tree_broadcast(int ranks);
Rounds tree_reduce(int ranks);

}  // namespace meshwright
