// Predicts how long a collective takes when all groups of one kind (say the 128 data-parallel
// groups) run it at once. The best algorithm of the table is taken. Each of its distinct rounds is
// timed with all groups sharing the links max-min fairly.
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

using Groups = std::vector<std::vector<int>>;  // ranks of each group, in group order

struct CollectiveChoice {
  std::string_view algorithm;
  Seconds time;
};

// Returns the algorithm of a collective and its time. `bytes` is the size of the full buffer: the
// reduced one, the gathered one, or what one rank holds for an all-to-all. Groups of one rank take
// no time. `algorithm` names an entry of the table, as NCCL_ALGO does. If the machine lacks it, a
// ring with Simple is used, as in NCCL. Empty means the fastest.
CollectiveChoice choose_collective(const Topology& topology, CollectiveKind kind, Bytes bytes,
                                   const Groups& concurrent_groups,
                                   std::string_view algorithm = {});
Seconds collective_time(const Topology& topology, CollectiveKind kind, Bytes bytes,
                        const Groups& concurrent_groups);

// Returns the time of the slowest message if every pair (from, to) sends `bytes` at once.
Seconds transfer_time(const Topology& topology, Bytes bytes,
                      const std::vector<std::pair<int, int>>& concurrent_pairs);

}  // namespace meshwright::sim
