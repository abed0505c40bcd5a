// Describes how a process group is placed on the machine: on which hosts, at which positions
// ("places") in them, and in which orders its members on one host form rings ("lanes"). Each lane
// carries an equal part of the bytes. Lanes over several hosts enter and leave each host at the
// members that are nearest to its network cards.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "sim/collectives/rounds.h"

namespace meshwright::sim {

struct PlacedGroup {
  Grid grid;               // {1, n} if hosts hold different numbers of ranks
  bool rectangle = true;   // the same number of ranks on every host
  int hosts = 1;           // number of hosts with ranks of the group
  std::vector<int> ranks;  // in ascending order, so host by host
  // Orders of the members of a host in rings, each a permutation of the places 0 .. per_host - 1.
  std::vector<std::vector<int>> lanes;
  // The lanes cut open: from the member where they enter a host to the one where they leave it.
  std::vector<std::vector<int>> passages;
  // Network cards of one host that its members use; 0 for a group on one host, and for one with
  // unequal numbers of ranks per host.
  int nics = 0;
  // The places in the order of a line over direct NVLinks, or in ascending order.
  std::vector<int> line;
  // Equal for groups with equal counts of ranks per host and equal places on the first host.
  std::vector<int> shape;
};

PlacedGroup place_group(const Topology& topology, const std::vector<int>& ranks);

}  // namespace meshwright::sim
