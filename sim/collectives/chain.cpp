#include "sim/collectives/chain.h"

namespace meshwright::sim {

// Builds the all-reduce of n ranks: chunk c leaves rank r for its right neighbour in repetition c +
// r. It is complete at the end, rank n - 1, and then leaves rank r for its left neighbour in
// repetition c + (n - 1) + (n - 1 - r).
Rounds chain_all_reduce(int ranks, int chunks) {
  Round round{{}, chunks + 2 * ranks - 3, 1, 0, 2 * (ranks - 1)};
  for (int rank = 0; rank + 1 < ranks; ++rank)
    round.transfers.push_back({rank, rank + 1, -rank, 1, 1, Combine::Reduce});
  for (int rank = ranks - 1; rank > 0; --rank)
    round.transfers.push_back(
        {rank, rank - 1, -(ranks - 1) - (ranks - 1 - rank), 1, 1, Combine::Copy});
  return {ranks, chunks, 1.0 / chunks, {round}};
}

Rounds chain_reduce(int ranks, int chunks) {
  Round round{{}, chunks + ranks - 2, 1, 0, ranks - 1};
  for (int rank = ranks - 1; rank > 0; --rank)
    round.transfers.push_back({rank, rank - 1, rank - (ranks - 1), 1, 1, Combine::Reduce});
  return {ranks, chunks, 1.0 / chunks, {round}};
}

Rounds chain_broadcast(int ranks, int chunks) {
  Round round{{}, chunks + ranks - 2, 1, 0, ranks - 1};
  for (int rank = 0; rank + 1 < ranks; ++rank)
    round.transfers.push_back({rank, rank + 1, -rank, 1, 1, Combine::Copy});
  return {ranks, chunks, 1.0 / chunks, {round}};
}

}  // namespace meshwright::sim
