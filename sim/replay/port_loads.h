// Predicts how much of a rank's ports a communication uses while it has them for itself.
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
  bool out = false, in = false;  // directions
  bool across = false;           // between hosts
  int ranks_here = 1;            // most ranks of one group, or of one pair, on one host
  double bytes = 0;              // that the rank moves in its group
  double bytes_here = 0;         // that it would move in a group of these ranks of its host alone
};

// Returns the loads of a communication that takes `lasts` while it has the ports for itself.
PortLoads loads_of(const PortTraffic& traffic, const Topology& topology, Seconds lasts);
// Returns the loads of a copy between a device and its host's memory.
PortLoads loads_of_host_copy(bool out, const Machine& machine);

// Returns the loads of communication on a rank's ports. Traffic between hosts uses the rank's share
// of its host's NICs. Traffic inside a host uses NVLink (or the way to the host if there is none),
// by the bytes that the rank moves there in that time. A collective uses both directions, a message
// or a copy one. The loads are the same for all ranks of a stage.
class PortUse {
 public:
  PortUse(const Mesh& mesh, const Topology& topology) : mesh_(mesh), topology_(topology) {}

  PortLoads of(const Instruction& instruction, int stage, Seconds lasts);

 private:
  struct Reach {
    int per_host = 1;  // most ranks of one group, or pair, on one host
    bool across = false;
  };
  Reach of_groups(GroupKind kind);
  Reach of_message(int from_stage, int to_stage);
  void visit(std::span<const int> ranks, Reach& reach) const;

  const Mesh& mesh_;
  const Topology& topology_;
  std::map<std::pair<int, int>, Reach> known_;  // {-1, group} or {stage, stage}
};

}  // namespace meshwright::sim
