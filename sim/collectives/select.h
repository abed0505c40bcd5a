// How long a collective takes when all groups of one kind (say the 128 data-parallel groups) run it
// at once. The best algorithm of the table is taken, each of its distinct rounds is timed with the
// links shared max-min fairly by all groups.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/core/units.h"

namespace meshwright {

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

// `bytes` is the size of the full buffer: the reduced one, the gathered one, what one rank holds
// for all-to-all. Groups of one rank take no time. `algorithm`: a row of the table that was asked
// for, as NCCL_ALGO does; where the machine lacks it, a ring with Simple, as in NCCL. Empty: the
// fastest.
CollectiveChoice choose_collective(const Topology& topology, CollectiveKind kind, Bytes bytes,
                                   const Groups& concurrent_groups,
                                   std::string_view algorithm = {});
Seconds collective_time(const Topology& topology, CollectiveKind kind, Bytes bytes,
                        const Groups& concurrent_groups);

// Point-to-point: every pair (from, to) sends `bytes` at once; the slowest.
Seconds transfer_time(const Topology& topology, Bytes bytes,
                      const std::vector<std::pair<int, int>>& concurrent_pairs);

}  // namespace meshwright
