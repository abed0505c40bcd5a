#include "sim/collectives/group.h"

#include <algorithm>
#include <numeric>

#include "models/core/error.h"
#include "sim/collectives/nvlink_rings.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Ranks per touched host.
std::vector<int> counts_per_host(const Cluster& cluster, const std::vector<int>& ranks) {
  std::vector<int> counts;
  int last = -1;
  for (const int rank : ranks) {
    if (cluster.host_of(rank) != last) counts.push_back(0);
    last = cluster.host_of(rank);
    ++counts.back();
  }
  return counts;
}

void find_lanes(const Topology& topology, PlacedGroup& group) {
  const Cluster& cluster = topology.cluster();
  const int places = group.grid.per_host;
  std::vector<int> natural(at(places));
  std::iota(natural.begin(), natural.end(), 0);
  group.lanes = {natural};
  group.line = natural;
  if (cluster.machine.nvlink.kind != NvlinkKind::matrix || places < 2 || !group.rectangle) return;
  LinkMatrix links(at(places), std::vector<int>(at(places)));
  const int first = cluster.host_of(group.ranks[0]) * cluster.processes_per_host;
  for (int a = 0; a < places; ++a)
    for (int b = 0; b < places; ++b)
      links[at(a)][at(b)] =
          topology.direct_nvlinks(group.ranks[at(a)] - first, group.ranks[at(b)] - first);
  if (auto rings = nvlink_rings(links); !rings.empty()) group.lanes = std::move(rings);
  if (auto line = nvlink_line(links); !line.empty()) group.line = std::move(line);
}

}  // namespace

PlacedGroup place_group(const Topology& topology, const std::vector<int>& ranks) {
  const Cluster& cluster = topology.cluster();
  PlacedGroup group;
  group.ranks = ranks;
  std::sort(group.ranks.begin(), group.ranks.end());
  for (const int rank : group.ranks)
    MESHWRIGHT_CHECK(rank >= 0 && rank < cluster.ranks(),
                     "a group names a rank outside the cluster");
  const std::vector<int> counts = counts_per_host(cluster, group.ranks);
  group.hosts = static_cast<int>(counts.size());
  group.rectangle =
      std::all_of(counts.begin(), counts.end(), [&](int c) { return c == counts[0]; });
  group.grid = group.rectangle ? Grid{group.hosts, counts[0]}
                               : Grid{1, static_cast<int>(group.ranks.size())};
  group.shape = counts;
  for (int place = 0; place < counts[0]; ++place)
    group.shape.push_back(group.ranks[at(place)] % cluster.processes_per_host);
  find_lanes(topology, group);
  return group;
}

}  // namespace meshwright
