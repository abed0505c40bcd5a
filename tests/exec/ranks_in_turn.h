// Ranks that take turns in this process: what Programs do on several ranks, without processes, and
// as slow or fast as their work alone however busy the computer is. The bits are those of the
// communicator `mpi`: sums are taken in the order of group ranks.
#pragma once

#include <functional>

#include "exec/comm/communicator.h"

namespace meshwright::tests {

// Runs `work` on every rank of a world of `ranks`, each until it waits for another, and returns
// when all are done. What the first rank to fail threw is thrown; so is a RunError where all wait
// for each other, or meet in collectives that differ. A message is sent when it is received, or at
// once where the world has buffers for it.
enum class RankMessages { met, buffered };
void run_in_turn(int ranks, const std::function<void()>& work,
                 RankMessages messages = RankMessages::met);

World& world_in_turn();  // of the rank whose turn it is

}  // namespace meshwright::tests
