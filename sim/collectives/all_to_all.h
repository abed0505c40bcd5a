// Builds an all-to-all of n ranks as n - 1 rounds: in round s every rank sends to the rank s
// positions after it, modulo n. A buffer has 2 n chunks: chunk r is for rank r, and chunk n + r
// came from rank r. No chunk is sent to the rank itself. All sends are posted together, so latency
// counts once. If there are more than `most_rounds` rounds, evenly spaced rounds stand for their
// neighbours, which is enough for timing but leaves some chunks unsent.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright::sim {

Rounds pairwise_all_to_all(int ranks, int most_rounds = 1 << 20);

}  // namespace meshwright::sim
