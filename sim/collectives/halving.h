// Inside the hosts rings; over the hosts recursive halving, then doubling (Thakur, Rabenseifner and
// Gropp 2005): 2 log2 H steps and the bytes of a ring, as MPI does it. Hosts beyond a power of two
// fold theirs into a partner's.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds halving_all_reduce(Grid grid);

}  // namespace meshwright
