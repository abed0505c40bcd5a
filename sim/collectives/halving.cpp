#include "sim/collectives/halving.h"

#include <bit>

#include "sim/collectives/two_levels.h"

namespace meshwright::sim {

namespace {

// Adds the transfers between two hosts for each place in a host: rank (from, j) sends the chunks of
// the hosts [begin, end) to rank (to, j). Adds none if begin equals end.
void on_every_rail(Grid grid, Round& round, int from, int to, int begin, int end, Combine combine) {
  const int k = grid.per_host;
  if (begin == end) return;
  for (int place = 0; place < k; ++place)
    round.transfers.push_back(
        {from * k + place, to * k + place, begin * k + place, end - begin, k, combine});
}

}  // namespace

Rounds halving_all_reduce(Grid grid) {
  const int hosts = grid.hosts;
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts)));
  // The data is divided into `power` blocks. Block b is the chunks that belong to the hosts from
  // edge(b) up to, but not including, edge(b + 1).
  const auto edge = [&](int block) { return hosts * block / power; };
  std::vector<Round> across;
  Round fold, unfold;
  for (int extra = power; extra < hosts; ++extra) {
    on_every_rail(grid, fold, extra, extra - power, 0, hosts, Combine::Reduce);
    on_every_rail(grid, unfold, extra - power, extra, 0, hosts, Combine::Copy);
  }
  if (power < hosts) across.push_back(fold);
  for (int distance = power / 2; distance >= 1; distance /= 2) {
    Round round;
    for (int host = 0; host < power; ++host) {
      const int partner = host ^ distance, begin = partner / distance * distance;
      on_every_rail(grid, round, host, partner, edge(begin), edge(begin + distance),
                    Combine::Reduce);
    }
    across.push_back(std::move(round));
  }
  for (int distance = 1; distance < power; distance *= 2) {
    Round round;
    for (int host = 0; host < power; ++host) {
      const int begin = host / distance * distance;
      on_every_rail(grid, round, host, host ^ distance, edge(begin), edge(begin + distance),
                    Combine::Copy);
    }
    across.push_back(std::move(round));
  }
  if (power < hosts) across.push_back(unfold);

  Rounds rounds{grid.ranks(), grid.ranks(), 1.0 / grid.ranks(), {}};
  const bool inside = grid.per_host > 1;
  if (inside) rounds.rounds.push_back(ring_inside(grid, Combine::Reduce));
  for (Round& round : across) rounds.rounds.push_back(std::move(round));
  if (inside) rounds.rounds.push_back(ring_inside(grid, Combine::Copy));
  return rounds;
}

}  // namespace meshwright::sim
