// Times transfers that happen at once, each over its route through the links of a topology.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "models/core/units.h"

namespace meshwright::sim {

class Flows {
 public:
  explicit Flows(const Topology& topology) : topology_(topology) {}
  void add(int from_rank, int to_rank, double bytes);
  bool empty() const { return flows_.empty(); }
  bool crosses_hosts() const { return crosses_hosts_; }

  // Returns the seconds after which the slowest flow has ended. All flows begin together, and equal
  // flows share a link equally, so the flows over the link with the most bytes for its bandwidth
  // end last.
  Seconds slowest() const;

 private:
  const Topology& topology_;
  struct Flow {
    int from, to;  // sending and receiving rank
    double bytes;
  };
  std::vector<Flow> flows_;
  bool crosses_hosts_ = false;
};

}  // namespace meshwright::sim
