#include "sim/collectives/two_levels.h"

namespace meshwright::sim {

namespace {

// Returns the chunk with which a rank starts. A reduction starts one chunk before the rank's own
// chunk, so that each rank ends with its own chunk complete.
int start(int place, int ranks, Combine combine) {
  return combine == Combine::Reduce ? (place + ranks - 1) % ranks : place;
}

Rounds of(Grid grid, std::vector<Round> candidates) {
  Rounds rounds{grid.ranks(), grid.ranks(), 1.0 / grid.ranks(), {}};
  for (Round& round : candidates)
    if (round.repeat > 0) rounds.rounds.push_back(std::move(round));
  return rounds;
}

}  // namespace

Round ring_inside(Grid grid, Combine combine) {
  const int k = grid.per_host;
  Round round{{}, k - 1, -1, k, k - 1};
  for (int host = 0; host < grid.hosts; ++host)
    for (int place = 0; place < k; ++place)
      round.transfers.push_back({host * k + place, host * k + (place + 1) % k,
                                 start(place, k, combine), grid.hosts, k, combine});
  return round;
}

Round ring_across(Grid grid, Combine combine) {
  const int k = grid.per_host, hosts = grid.hosts;
  Round round{{}, hosts - 1, -k, k * hosts, hosts - 1};
  for (int host = 0; host < hosts; ++host)
    for (int place = 0; place < k; ++place)
      round.transfers.push_back({host * k + place, (host + 1) % hosts * k + place,
                                 start(host, hosts, combine) * k + place, 1, 1, combine});
  return round;
}

Rounds two_level_all_reduce(Grid grid) {
  return of(grid, {ring_inside(grid, Combine::Reduce), ring_across(grid, Combine::Reduce),
                   ring_across(grid, Combine::Copy), ring_inside(grid, Combine::Copy)});
}

Rounds two_level_reduce_scatter(Grid grid) {
  return of(grid, {ring_inside(grid, Combine::Reduce), ring_across(grid, Combine::Reduce)});
}

Rounds two_level_all_gather(Grid grid) {
  return of(grid, {ring_across(grid, Combine::Copy), ring_inside(grid, Combine::Copy)});
}

}  // namespace meshwright::sim
