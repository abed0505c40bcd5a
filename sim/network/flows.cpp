#include "sim/network/flows.h"

#include <algorithm>

#include "sim/network/max_min.h"

namespace meshwright {

void Flows::add(int from_rank, int to_rank, double bytes) {
  if (from_rank == to_rank) return;
  links_.emplace_back();
  topology_.append_route(from_rank, to_rank, links_.back());
  bytes_.push_back(bytes);
  const Cluster& cluster = topology_.cluster();
  crosses_hosts_ = crosses_hosts_ || cluster.host_of(from_rank) != cluster.host_of(to_rank);
}

Seconds Flows::slowest() const {
  std::vector<int> used;  // global link ids; max_min_rates wants indices into the capacities
  for (const auto& links : links_) used.insert(used.end(), links.begin(), links.end());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<double> capacity;
  for (const int link : used) capacity.push_back(topology_.link(link).bandwidth_bytes_per_s);
  std::vector<std::vector<int>> indices = links_;
  for (auto& links : indices)
    for (int& link : links)
      link = static_cast<int>(std::lower_bound(used.begin(), used.end(), link) - used.begin());
  const std::vector<double> rates = max_min_rates(capacity, indices);
  double time = 0;
  for (std::size_t flow = 0; flow < rates.size(); ++flow)
    time = std::max(time, bytes_[flow] / rates[flow]);
  return {time};
}

}  // namespace meshwright
