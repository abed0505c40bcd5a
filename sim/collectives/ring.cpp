#include "sim/collectives/ring.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

// Returns the round that passes chunks around the ring, ranks - 1 times. A reduction starts one
// chunk before each rank's own chunk, so that it ends with that chunk complete.
Round around(int ranks, int hosts, Combine combine) {
  Round round{{}, ranks - 1, -1, ranks, ranks - 1, std::max(0, ranks - 1 - hosts)};
  for (int rank = 0; rank < ranks; ++rank) {
    const int first = combine == Combine::Reduce ? (rank + ranks - 1) % ranks : rank;
    round.transfers.push_back({rank, (rank + 1) % ranks, first, 1, 1, combine});
  }
  return round;
}

}  // namespace

Rounds ring_all_reduce(int ranks, int hosts) {
  return {ranks,
          ranks,
          1.0 / ranks,
          {around(ranks, hosts, Combine::Reduce), around(ranks, hosts, Combine::Copy)}};
}

Rounds ring_reduce_scatter(int ranks, int hosts) {
  return {ranks, ranks, 1.0 / ranks, {around(ranks, hosts, Combine::Reduce)}};
}

Rounds ring_all_gather(int ranks, int hosts) {
  return {ranks, ranks, 1.0 / ranks, {around(ranks, hosts, Combine::Copy)}};
}

}  // namespace meshwright::sim
