// Builds collectives that pass chunk after chunk along a line of ranks. The all-reduce sums chunks
// towards the end of the line while finished chunks come back. It needs no closed ring, so it
// serves GPUs whose links do not form one. With many chunks its bus bandwidth approaches 2 (n - 1)
// / n times the bandwidth of one direction of a link, for n ranks.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright::sim {

Rounds chain_all_reduce(int ranks, int chunks);
Rounds chain_broadcast(int ranks, int chunks);  // sends the buffer from rank 0 to all ranks
Rounds chain_reduce(int ranks, int chunks);     // sums the buffers of all ranks on rank 0

}  // namespace meshwright::sim
