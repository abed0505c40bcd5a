#include "sim/collectives/switch.h"

#include "sim/collectives/tree.h"

namespace meshwright {

namespace {

// Place j of a host owns the chunks j, j + k, ...
Round straight(Grid grid, int chunks, Combine combine) {
  const int k = grid.per_host;
  Round round;
  for (int host = 0; host < grid.hosts; ++host)
    for (int owner = 0; owner < k; ++owner)
      for (int other = 0; other < k; ++other) {
        if (other == owner) continue;
        const int from = combine == Combine::Reduce ? other : owner, to = owner + other - from;
        round.transfers.push_back({host * k + from, host * k + to, owner, chunks / k, k, combine});
      }
  return round;
}

}  // namespace

Rounds switch_all_reduce(Grid grid, int chunks) {
  const int all = (grid.hosts > 1 ? 2 * chunks : 1) * grid.per_host;
  Rounds rounds{grid.ranks(), all, 1.0 / all, {straight(grid, all, Combine::Reduce)}};
  if (grid.hosts > 1) rounds.rounds.push_back(trees_of_places(grid, chunks));
  rounds.rounds.push_back(straight(grid, all, Combine::Copy));
  return rounds;
}

}  // namespace meshwright
