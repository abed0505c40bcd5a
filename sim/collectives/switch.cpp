#include "sim/collectives/switch.h"

#include "sim/collectives/tree.h"

namespace meshwright::sim {

namespace {

// Returns the round in which the places of each host exchange chunks. Of k places, place j owns the
// chunks j, j + k, and so on. The round passes each chunk through all other places, one after the
// other, but counts one latency, because the switch does this in one step.
Round through_switch(Grid grid, int chunks, Combine combine) {
  const int k = grid.per_host;
  Round round{{}, k - 1, -1, k, 1};
  for (int host = 0; host < grid.hosts; ++host)
    for (int place = 0; place < k; ++place) {
      const int first = combine == Combine::Reduce ? (place + k - 1) % k : place;
      round.transfers.push_back(
          {host * k + place, host * k + (place + 1) % k, first, chunks / k, k, combine});
    }
  return round;
}

}  // namespace

Rounds switch_all_reduce(Grid grid, int chunks) {
  const int all = (grid.hosts > 1 ? 2 * chunks : 1) * grid.per_host;
  Rounds rounds{grid.ranks(), all, 1.0 / all, {through_switch(grid, all, Combine::Reduce)}};
  if (grid.hosts > 1) rounds.rounds.push_back(trees_of_places(grid, chunks));
  rounds.rounds.push_back(through_switch(grid, all, Combine::Copy));
  return rounds;
}

}  // namespace meshwright::sim
