// How long rounds of transfers take on a topology when several groups run them in step: every round
// lasts as long as its slowest transfer under max-min fair shares, and each step that waits for
// another adds a latency. Rounds inside hosts and rounds between hosts work on different chunks at
// the same time, so of the two the longer counts, and of the shorter only the first chunk.
#pragma once

#include "models/core/units.h"
#include "sim/collectives/group.h"

namespace meshwright {

enum class Order : std::uint8_t { lanes, line };  // how the ranks of a host take their places

struct Timed {
  const Topology& topology;
  const std::vector<PlacedGroup>& groups;  // of equal grids; the first is the one asked about
  Bytes bytes;
};

Seconds time_of(const Timed& timed, const Rounds& rounds, Order order);

}  // namespace meshwright
