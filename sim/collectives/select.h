// Predicts how long a collective takes when all groups of one kind (say the 128 data-parallel
// groups) run it at once. For each different placement of a group on its hosts, the fastest
// algorithm of a table is taken, and the slowest placement decides. The rounds of the algorithm are
// timed together with those of the groups that share its links.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/core/units.h"

namespace meshwright::sim {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  two_level_all_gather,  // between the hosts first, then inside them
  reduce_scatter,
  all_to_all,
  broadcast,
  reduce
};

using Groups = std::vector<std::vector<int>>;  // the ranks of each group

struct CollectiveChoice {
  std::string_view algorithm;
  Seconds time;
};

// Returns the algorithm of a collective and its time. `bytes` is the size of the full buffer: the
// reduced one, the gathered one, or what one rank holds for an all-to-all. Groups of one rank take
// no time. `algorithm` names an entry of the table, as NCCL_ALGO does. Empty means the fastest. If
// the named algorithm does not apply, a ring with the protocol Simple is used, as in NCCL, and if
// no ring applies, the fastest algorithm.
CollectiveChoice choose_collective(const Topology& topology, CollectiveKind kind, Bytes bytes,
                                   const Groups& concurrent_groups,
                                   std::string_view algorithm = {});
Seconds collective_time(const Topology& topology, CollectiveKind kind, Bytes bytes,
                        const Groups& concurrent_groups);

// Returns the time of the slowest message if every pair (from, to) of ranks sends `bytes` at once.
Seconds transfer_time(const Topology& topology, Bytes bytes,
                      const std::vector<std::pair<int, int>>& concurrent_pairs);

}  // namespace meshwright::sim
