#include "sim/network/flows.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace meshwright {

void Flows::add(int from_rank, int to_rank, double bytes) {
  if (from_rank == to_rank) return;
  const Cluster& cluster = topology_.cluster();
  bytes_[static_cast<std::int64_t>(from_rank) * cluster.ranks() + to_rank] += bytes;
  crosses_hosts_ = crosses_hosts_ || cluster.host_of(from_rank) != cluster.host_of(to_rank);
}

Seconds Flows::slowest() const {
  const int ranks = topology_.cluster().ranks();
  // In one order, so that sums of the same flows are the same to the last digit.
  std::vector<std::pair<std::int64_t, double>> pairs(bytes_.begin(), bytes_.end());
  std::sort(pairs.begin(), pairs.end());
  std::unordered_map<int, double> load;  // bytes over each link
  std::vector<int> route;
  for (const auto& [pair, bytes] : pairs) {
    route.clear();
    topology_.append_route(static_cast<int>(pair / ranks), static_cast<int>(pair % ranks), route);
    for (const int link : route) load[link] += bytes;
  }
  double time = 0;
  for (const auto& [link, bytes] : load)
    time = std::max(time, bytes / topology_.link(link).bandwidth_bytes_per_s);
  return {time};
}

}  // namespace meshwright
