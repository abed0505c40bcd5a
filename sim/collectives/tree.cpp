#include "sim/collectives/tree.h"

#include <algorithm>
#include <bit>

namespace meshwright::sim {

namespace {

// Returns the parent of a position in an in-order binary tree over the positions 1 to `count`, or 0
// for the root. Every odd position is a leaf.
int parent_of(int position, int count) {
  if (position == static_cast<int>(std::bit_floor(static_cast<unsigned>(count)))) return 0;
  do {
    const int low = position & -position;
    position = (position ^ low) | 2 * low;
  } while (position > count);
  return position;
}

// Returns the parent of each host in one of the two trees, -1 for the root. In the second tree the
// hosts are reversed or, if their number is odd, shifted, so that the leaves of the first tree have
// children.
std::vector<int> host_parents(int hosts, bool second) {
  std::vector<int> host_at(hosts + 1, -1);
  for (int host = 0; host < hosts; ++host) {
    const int shifted = host == 0 ? hosts : host;
    host_at[!second ? host + 1 : hosts % 2 == 0 ? hosts - host : shifted] = host;
  }
  std::vector<int> parents(hosts);
  for (int position = 1; position <= hosts; ++position)
    parents[host_at[position]] = host_at[parent_of(position, hosts)];  // position 0 has the host -1
  return parents;
}

// Adds the transfers that sum up trees to their roots and copy the sums back, chunk after chunk.
// `parents` holds the parent of each rank, -1 for a root. Rank r moves chunks first(r), first(r) +
// step, and so on. It sends a chunk up as soon as the ranks below it have sent theirs. The root
// sends a chunk down as soon as it is complete. Returns the number of steps that the first chunk
// takes.
template <typename First>
int sum_up_and_down(Round& round, const std::vector<int>& parents, int step, const First& first) {
  const int ranks = static_cast<int>(parents.size());
  // Number of ranks on the longest way down, and on the way up.
  std::vector<int> below(ranks), above(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (int up = parents[rank]; up >= 0; up = parents[up])
      below[up] = std::max(below[up], ++above[rank]);
  const int top = *std::ranges::max_element(below);
  for (int rank = 0; rank < ranks; ++rank) {
    const int parent = parents[rank];
    if (parent < 0) continue;
    round.transfers.push_back(
        {rank, parent, first(rank) - step * below[rank], 1, 1, Combine::Reduce});
    round.transfers.push_back(
        {parent, rank, first(rank) - step * (top + above[rank] - 1), 1, 1, Combine::Copy});
  }
  return 2 * top;
}

}  // namespace

Rounds tree_all_reduce(Grid grid, int chunks) {
  const int k = grid.per_host;
  Round round{{}, 0, 2, 0, 0, 2 * (k - 1)};
  for (const bool second : {false, true}) {
    const std::vector<int> hosts = host_parents(grid.hosts, second);
    std::vector<int> parents(grid.ranks());
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      const int host = rank / k;
      parents[rank] = rank % k > 0 ? rank - 1 : hosts[host] < 0 ? -1 : hosts[host] * k;
    }
    const int steps = sum_up_and_down(round, parents, 2, [&](int) { return second ? 1 : 0; });
    round.latency_steps = std::max(round.latency_steps, steps);
  }
  round.repeat = chunks + round.latency_steps - 1;
  return {grid.ranks(), 2 * chunks, 0.5 / chunks, {round}};
}

Round trees_of_places(Grid grid, int chunks) {
  const int k = grid.per_host;
  Round round{{}, 0, 2 * k, 0, 0};
  for (const bool second : {false, true}) {
    const std::vector<int> hosts = host_parents(grid.hosts, second);
    std::vector<int> parents(grid.ranks());
    for (int rank = 0; rank < grid.ranks(); ++rank)
      parents[rank] = hosts[rank / k] < 0 ? -1 : hosts[rank / k] * k + rank % k;
    const int steps = sum_up_and_down(round, parents, 2 * k,
                                      [&](int rank) { return rank % k + (second ? k : 0); });
    round.latency_steps = std::max(round.latency_steps, steps);
  }
  round.repeat = chunks + round.latency_steps - 1;
  return round;
}

Rounds tree_broadcast(int ranks) {
  Rounds rounds{ranks, 1, 1.0, {}};
  for (int have = 1; have < ranks; have *= 2) {
    Round round;
    for (int rank = 0; rank < std::min(have, ranks - have); ++rank)
      round.transfers.push_back({rank, rank + have});
    rounds.rounds.push_back(std::move(round));
  }
  return rounds;
}

Rounds tree_reduce(int ranks) {
  Rounds rounds = tree_broadcast(ranks);
  std::ranges::reverse(rounds.rounds);
  for (Round& round : rounds.rounds)
    for (Transfer& transfer : round.transfers) {
      std::swap(transfer.from, transfer.to);
      transfer.combine = Combine::Reduce;
    }
  return rounds;
}

}  // namespace meshwright::sim
