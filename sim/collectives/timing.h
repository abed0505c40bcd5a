// How long rounds of transfers take on a topology when several groups run them in step: every round
// lasts as long as its slowest transfer under max-min fair shares, and each step that waits for
// another adds a latency. Rounds inside hosts and rounds between hosts work on different chunks at
// the same time, so of the two the longer counts, and of the shorter only the first chunk.
//
// In which order the ranks of a host take their places: in every one of its rings, along its line,
// or along its passages; a tree goes along the passages too, but moves no more through each network
// card than the profile says; where the switch sums up, all lie alike.
//
// Of NCCL's protocols (protocols.h) the fastest is taken. Sums in the switch are Simple.
#pragma once

#include "models/core/units.h"
#include "sim/collectives/group.h"
#include "sim/collectives/protocols.h"

namespace meshwright {

enum class Order : std::uint8_t { lanes, line, passages, tree, in_switch, exchange };

struct Timed {
  const Topology& topology;
  const std::vector<PlacedGroup>& groups;  // of equal grids; the first is the one asked about
  Bytes bytes;
  Bytes bus_bytes;  // that a rank sends at least: bus bandwidth is counted with them
  Bytes own;        // a rank's own part of the buffer; 0: it has none
  Protocols protocols = Protocols::all;
};

Seconds time_of(const Timed& timed, const Rounds& rounds, Order order);

}  // namespace meshwright
