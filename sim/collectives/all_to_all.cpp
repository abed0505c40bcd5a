#include "sim/collectives/all_to_all.h"

#include <algorithm>

namespace meshwright::sim {

Rounds pairwise_all_to_all(int ranks, int most_rounds) {
  Rounds rounds{ranks, 2 * ranks, 1.0 / ranks, {}};
  const int distances = ranks - 1, kept = std::min(distances, most_rounds);
  for (int i = 0; i < kept; ++i) {
    const int begin = 1 + distances * i / kept, end = 1 + distances * (i + 1) / kept;
    const int distance = (begin + end - 1) / 2;
    // All sends are posted at once, so only the first round has a latency.
    Round round{{}, end - begin, 0, 0, i == 0 ? 1 : 0};
    for (int rank = 0; rank < ranks; ++rank) {
      const int to = (rank + distance) % ranks;
      round.transfers.push_back({rank, to, to, 1, 1, Combine::Copy, ranks + rank});
    }
    rounds.rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace meshwright::sim
