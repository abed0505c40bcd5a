// Describes how a process group is placed on the machine: on which hosts, at which positions in
// them, and in which orders its members on one host form rings ("lanes"). Each lane carries an
// equal part of the bytes. Lanes over several hosts enter and leave each host at the members that
// are nearest to its network cards.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "sim/collectives/rounds.h"

namespace meshwright::sim {

struct PlacedGroup {
  Grid grid;                               // {1, n} when the hosts hold different numbers of ranks
  bool rectangle = true;                   // the same number of ranks on every host
  int hosts = 1;                           // that it touches
  std::vector<int> ranks;                  // sorted: host by host
  std::vector<std::vector<int>> lanes;     // permutations of the places 0 .. per_host - 1
  std::vector<std::vector<int>> passages;  // from where lanes enter a host to where they leave
  int nics = 0;                            // network cards that its members of one host use
  std::vector<int> line;   // places in the order of a line over direct NVLinks, or in order
  std::vector<int> shape;  // equal for groups that lie alike on their hosts
};

PlacedGroup place_group(const Topology& topology, const std::vector<int>& ranks);

}  // namespace meshwright::sim
