// Runs the ranks of a world in turn in this process. This tests what Programs do on several ranks
// without processes, and takes as long as their work, however busy the computer is. The bits are
// those of the communicator `mpi`: sums are taken in the order of group ranks.
#pragma once

#include <functional>

#include "exec/comm/communicator.h"

namespace meshwright::tests {

// Runs `work` on every rank of a world of `ranks`, each until it waits for another, and returns
// when all are done. Throws what the first rank to fail threw, or RunError if all ranks wait for
// each other or call collectives that differ. A message is delivered when it is received, or at
// once if messages are buffered.
enum class RankMessages { met, buffered };
void run_in_turn(int ranks, const std::function<void()>& work,
                 RankMessages messages = RankMessages::met);

World& world_in_turn();  // the world of the running rank

}  // namespace meshwright::tests
