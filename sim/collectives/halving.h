// Builds an all-reduce with rings inside the hosts, and between them recursive halving, then
// doubling (Thakur, Rabenseifner and Gropp 2005), as in MPI. Between H hosts, if H is a power of
// two, it takes 2 log2 H steps and moves the bytes of a ring. Otherwise each of the surplus hosts
// first adds its data to a partner's and gets the result at the end.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright::sim {

Rounds halving_all_reduce(Grid grid);

}  // namespace meshwright::sim
