#include "sim/collectives/group.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "models/core/error.h"
#include "sim/collectives/nvlink_rings.h"

namespace meshwright::sim {

namespace {

// Returns the number of ranks on each host that a group touches. `ranks` are sorted.
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
  std::vector<int> natural(places);
  std::iota(natural.begin(), natural.end(), 0);
  group.lanes = {natural};
  group.line = natural;
  if (cluster.machine.nvlink.kind != NvlinkKind::matrix || places < 2 || !group.rectangle) return;
  LinkMatrix links(places, std::vector<int>(places));
  const int first = cluster.host_of(group.ranks[0]) * cluster.processes_per_host;
  for (int a = 0; a < places; ++a)
    for (int b = 0; b < places; ++b)
      links[a][b] = topology.direct_nvlinks(group.ranks[a] - first, group.ranks[b] - first);
  if (auto rings = nvlink_rings(links); !rings.empty()) group.lanes = std::move(rings);
  if (auto line = nvlink_line(links); !line.empty()) group.line = std::move(line);
}

// Returns the rings cut open at all positions where the routes from both ends to the network cards
// are the shortest together, among all positions of all rings. `way` holds the number of links on
// the route of each place.
std::vector<std::vector<int>> cut_near_cards(const PlacedGroup& group,
                                             const std::vector<std::size_t>& way) {
  std::vector<std::vector<int>> passages;
  std::size_t shortest = 0;
  for (std::vector<int> ring : group.lanes)
    for (std::size_t cut = 0; cut < ring.size(); ++cut) {
      const std::size_t ends = way[ring.front()] + way[ring.back()];
      if (passages.empty() || ends < shortest) passages.clear(), shortest = ends;
      if (ends == shortest) passages.push_back(ring);
      std::rotate(ring.begin(), ring.begin() + 1, ring.end());
    }
  return passages;
}

// Returns how many network cards a host has behind `links` of its links to the network. The cards
// are spread evenly over all these links.
int cards_behind(const Topology& topology, std::size_t links) {
  int all = 0;
  for (int link = 0; link < topology.links_per_host(); ++link)
    all += topology.link(link).kind == LinkKind::nic ? 1 : 0;
  return topology.cluster().network().nics * static_cast<int>(links) / std::max(1, all / 2);
}

void find_passages(const Topology& topology, PlacedGroup& group) {
  group.passages = group.lanes;
  if (group.hosts < 2 || !group.rectangle) return;
  const int places = group.grid.per_host, host = topology.cluster().host_of(group.ranks[0]);
  // Links on the route of each place to the same place on the next host.
  std::vector<std::size_t> way;
  std::set<int> leaving;  // the first host's links to the network that these routes use
  for (int place = 0; place < places; ++place) {
    const auto route = topology.route(group.ranks[place], group.ranks[places + place]);
    way.push_back(route.size());
    for (const int link : route)
      if (topology.link(link).kind == LinkKind::nic && topology.host_of_link(link) == host)
        leaving.insert(link);
  }
  group.passages = cut_near_cards(group, way);
  group.nics = cards_behind(topology, leaving.size());
}

}  // namespace

PlacedGroup place_group(const Topology& topology, const std::vector<int>& ranks) {
  const Cluster& cluster = topology.cluster();
  PlacedGroup group;
  group.ranks = ranks;
  std::ranges::sort(group.ranks);
  for (const int rank : group.ranks)
    MESHWRIGHT_CHECK(rank >= 0 && rank < cluster.ranks(),
                     "a group names a rank outside the cluster");
  const std::vector<int> counts = counts_per_host(cluster, group.ranks);
  group.hosts = static_cast<int>(counts.size());
  group.rectangle = std::ranges::all_of(counts, [&](int c) { return c == counts[0]; });
  group.grid = group.rectangle ? Grid{group.hosts, counts[0]}
                               : Grid{1, static_cast<int>(group.ranks.size())};
  group.shape = counts;
  for (int place = 0; place < counts[0]; ++place)
    group.shape.push_back(group.ranks[place] % cluster.processes_per_host);
  find_lanes(topology, group);
  find_passages(topology, group);
  return group;
}

}  // namespace meshwright::sim
