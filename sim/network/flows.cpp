#include "sim/network/flows.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace meshwright::sim {

namespace {

// Sums the bytes over each link. Only hosts with flows have entries for their links.
class Loads {
 public:
  explicit Loads(const Topology& topology)
      : topology_(topology), place_of_host_(topology.cluster().hosts, -1) {}

  void add(int link, double bytes) {
    const int links = topology_.links_per_host();
    int& place = place_of_host_[topology_.host_of_link(link)];
    if (place < 0) {
      place = static_cast<int>(hosts_.size());
      hosts_.push_back(topology_.host_of_link(link));
      bytes_.resize(bytes_.size() + links, 0.0);
    }
    bytes_[place * links + topology_.local_link(link)] += bytes;
  }

  double slowest_s() const {
    double seconds = 0;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (bytes_[i] == 0) continue;
      const std::size_t links = topology_.links_per_host();
      const int link = hosts_[i / links] * topology_.links_per_host() + static_cast<int>(i % links);
      seconds = std::max(seconds, bytes_[i] / topology_.link(link).bandwidth_bytes_per_s);
    }
    return seconds;
  }

 private:
  const Topology& topology_;
  std::vector<int> place_of_host_, hosts_;  // by host, -1: none of its links are used; and back
  std::vector<double> bytes_;               // [position in hosts_ * links per host + link]
};

}  // namespace

void Flows::add(int from_rank, int to_rank, double bytes) {
  if (from_rank == to_rank) return;
  const Cluster& cluster = topology_.cluster();
  flows_.push_back({from_rank, to_rank, bytes});
  crosses_hosts_ = crosses_hosts_ || cluster.host_of(from_rank) != cluster.host_of(to_rank);
}

Seconds Flows::slowest() const {
  // Sorts the flows by their ranks. Otherwise the last digits of the sums would depend on the order
  // in which the pairs of ranks were added.
  std::vector<Flow> flows = flows_;
  std::ranges::stable_sort(flows, [](const Flow& a, const Flow& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  Loads loads(topology_);
  std::vector<int> route;
  for (std::size_t i = 0; i < flows.size();) {
    const Flow& flow = flows[i];
    double bytes = 0;
    for (; i < flows.size() && flows[i].from == flow.from && flows[i].to == flow.to; ++i)
      bytes += flows[i].bytes;
    route.clear();
    topology_.append_route(flow.from, flow.to, route);
    for (const int link : route) loads.add(link, bytes);
  }
  return {loads.slowest_s()};
}

}  // namespace meshwright::sim
