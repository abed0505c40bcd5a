// All-to-all as n - 1 rounds: in round s every rank sends to the rank s places on. A buffer has 2 n
// chunks: [0, n) is what goes to each rank, [n, 2 n) what came from each (a rank's own chunk does
// not travel). All sends are posted together, so latency counts once. `most_rounds` samples the
// distances evenly, each standing for its neighbours: enough for timing.
#pragma once

#include "sim/collectives/rounds.h"

namespace meshwright {

Rounds pairwise_all_to_all(int ranks, int most_rounds = 1 << 20);

}  // namespace meshwright
