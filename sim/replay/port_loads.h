// Predicts how much of a rank's ports a communication uses while it shares them with no other.
#pragma once

#include <map>
#include <utility>

#include "hwprofiles/topology.h"
#include "models/program/mesh.h"
#include "models/program/program.h"
#include "sim/replay/flights.h"

namespace meshwright::sim {

// How one rank sends and receives in a communication.
struct PortTraffic {
  bool out = false, in = false;  // whether it sends, and whether it receives
  bool across = false;           // whether it goes between hosts
  int ranks_here = 1;  // largest number of ranks of one group, or of one pair, on one host
  double bytes = 0;    // bytes that the rank moves in its group
  // Bytes that it would move in a group of only the `ranks_here` ranks on its host.
  double bytes_here = 0;
};

// Returns the loads of a communication that takes `lasts` while it shares its ports with no other.
PortLoads loads_of(const PortTraffic& traffic, const Topology& topology, Seconds lasts);
// Returns the loads of a copy between a device and its host's memory.
PortLoads loads_of_host_copy(bool out, const Machine& machine);

// Returns the loads of communication on a rank's ports. Traffic between hosts uses the rank's share
// of its host's NICs. Traffic inside a host uses NVLink (or the way to the host if there is none),
// in proportion to the bytes that the rank moves inside the host. A collective uses both
// directions, a message or a copy one. The loads are the same for all ranks of a stage.
class PortUse {
 public:
  PortUse(const Mesh& mesh, const Topology& topology) : mesh_(mesh), topology_(topology) {}

  PortLoads of(const Instruction& instruction, int stage, Seconds lasts);

 private:
  struct Reach {
    int per_host = 1;  // largest number of ranks of one group, or pair, on one host
    bool across = false;
  };
  Reach of_groups(GroupKind kind);
  Reach of_message(int from_stage, int to_stage);
  void visit(std::span<const int> ranks, Reach& reach) const;

  const Mesh& mesh_;
  const Topology& topology_;
  std::map<std::pair<int, int>, Reach> known_;  // the key is {-1, group} or {stage, stage}
};

}  // namespace meshwright::sim
