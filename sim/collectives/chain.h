// Pipelines along a line of ranks, chunk after chunk. The all-reduce sums towards the end of the
// line while finished chunks come back: it needs no closed ring, so it is what remains where GPUs
// do not form one. With many chunks its bus bandwidth is 2 (n - 1) / n of a link's.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds chain_all_reduce(int ranks, int chunks);
Rounds chain_broadcast(int ranks, int chunks);  // from rank 0
Rounds chain_reduce(int ranks, int chunks);     // to rank 0

}  // namespace meshwright
