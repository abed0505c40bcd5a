// Transfers that happen at once, each over its route, sharing links max-min fairly.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "models/core/units.h"

namespace meshwright {

class Flows {
 public:
  explicit Flows(const Topology& topology) : topology_(topology) {}
  void add(int from_rank, int to_rank, double bytes);
  bool empty() const { return links_.empty(); }
  bool crosses_hosts() const { return crosses_hosts_; }

  // When the slowest has ended, each keeping its share until all have.
  Seconds slowest() const;

 private:
  const Topology& topology_;
  std::vector<std::vector<int>> links_;
  std::vector<double> bytes_;
  bool crosses_hosts_ = false;
};

}  // namespace meshwright
