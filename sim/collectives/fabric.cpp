#include "sim/collectives/fabric.h"

#include <algorithm>
#include <vector>

namespace meshwright::sim {

namespace {

class Leaves {
 public:
  explicit Leaves(const Cluster& cluster)
      : hosts_(hosts_per_leaf(cluster)), first_(cluster.fabric->first_host) {}
  int of(int host) const { return (first_ + host) / hosts_; }

 private:
  int hosts_, first_;
};

// Returns the hosts of a group in ascending order, each with the number of the group's ranks on it.
std::map<int, int> ranks_on_hosts(const Cluster& cluster, const std::vector<int>& group) {
  std::map<int, int> on;
  for (const int rank : group) ++on[cluster.host_of(rank)];
  return on;
}

// Returns for each host how many of its ranks are in groups that extend beyond it. A rank counts
// once for each of its groups.
std::map<int, int> senders_on_hosts(const Cluster& cluster, const Groups& groups) {
  std::map<int, int> senders;
  for (const std::vector<int>& group : groups) {
    const std::map<int, int> on = ranks_on_hosts(cluster, group);
    if (on.size() > 1)
      for (const auto& [host, ranks] : on) senders[host] += ranks;
  }
  return senders;
}

}  // namespace

int hosts_per_leaf(const Cluster& cluster) {
  const Fabric& fabric = *cluster.fabric;
  const int cards = std::max(1, cluster.network().nics);
  return fabric.rails ? fabric.leaf_ports : std::max(1, fabric.leaf_ports / cards);
}

double spine_capacity(const Cluster& cluster) {
  const Fabric& fabric = *cluster.fabric;
  return hosts_per_leaf(cluster) / fabric.oversubscription * fabric.spine_share;
}

SpineLoads spine_loads(const Cluster& cluster, CollectiveKind kind, const Groups& groups) {
  const Leaves leaves(cluster);
  const std::map<int, int> senders = senders_on_hosts(cluster, groups);
  SpineLoads loads;
  for (const std::vector<int>& group : groups) {
    const std::map<int, int> on = ranks_on_hosts(cluster, group);
    if (on.size() < 2) continue;
    std::map<int, int> hosts_in;  // number of the group's hosts on each leaf
    for (const auto& [host, ranks] : on) ++hosts_in[leaves.of(host)];
    for (auto it = on.begin(); it != on.end(); ++it) {
      const auto& [host, ranks] = *it;
      const double busy = static_cast<double>(ranks) / senders.at(host);
      const int leaf = leaves.of(host);
      if (kind == CollectiveKind::all_to_all) {
        const auto others = static_cast<double>(on.size() - 1);
        loads[leaf] += busy * (static_cast<double>(on.size()) - hosts_in[leaf]) / others;
      } else {
        const auto next = std::next(it) == on.end() ? on.begin() : std::next(it);
        if (leaves.of(next->first) != leaf) loads[leaf] += busy;
      }
    }
  }
  std::erase_if(loads, [](const auto& load) { return load.second == 0; });
  return loads;
}

SpineLoads spine_loads(const Cluster& cluster, std::span<const std::pair<int, int>> pairs) {
  const Leaves leaves(cluster);
  std::map<int, int> leaving;  // number of pairs from each host to another one
  for (const auto& [from, to] : pairs)
    leaving[cluster.host_of(from)] += cluster.host_of(from) != cluster.host_of(to);
  SpineLoads loads;
  for (const auto& [from, to] : pairs) {
    const int host = cluster.host_of(from), leaf = leaves.of(host);
    if (leaves.of(cluster.host_of(to)) != leaf) loads[leaf] += 1.0 / leaving[host];
  }
  return loads;
}

double share_of_cards(const Cluster& cluster, const SpineLoads& loads) {
  const double capacity = spine_capacity(cluster);
  double share = 1;
  for (const auto& [leaf, load] : loads) share = std::min(share, capacity / load);
  return share;
}

double share_of_cards(const Cluster& cluster, CollectiveKind kind, const Groups& groups) {
  double share = share_of_cards(cluster, spine_loads(cluster, kind, groups));
  if (kind != CollectiveKind::all_reduce || !cluster.fabric->in_network_reduction) return share;
  std::size_t hosts = 1;
  for (const std::vector<int>& group : groups)
    hosts = std::max(hosts, ranks_on_hosts(cluster, group).size());
  return hosts < 2 ? share
                   : share * 2 * static_cast<double>(hosts - 1) / static_cast<double>(hosts);
}

Topology with_cards(const Topology& topology, double share) {
  Topology scaled = topology;
  scaled.scale_cards(share);
  return scaled;
}

}  // namespace meshwright::sim
