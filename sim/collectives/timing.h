// How long rounds of transfers take on a topology when several groups run them in step: every round
// lasts as long as its slowest transfer under max-min fair shares, and each step that waits for
// another adds a latency. Rounds inside hosts and rounds between hosts work on different chunks at
// the same time, so of the two the longer counts, and of the shorter only the first chunk.
//
// In which order the ranks of a host take their places: in every one of its rings, along its line,
// or along its passages; a tree goes along the passages too, but moves no more through each network
// card than the profile says; where the switch sums up, all lie alike.
//
// Of NCCL's protocols the faster is taken: LL, whose lines carry flags, or Simple, each step of
// which takes longer. Sums in the switch are Simple.
#pragma once

#include "models/core/units.h"
#include "sim/collectives/group.h"

namespace meshwright {

enum class Order : std::uint8_t { lanes, line, passages, tree, in_switch };

struct Timed {
  const Topology& topology;
  const std::vector<PlacedGroup>& groups;  // of equal grids; the first is the one asked about
  Bytes bytes;
  Bytes bus_bytes;  // that a rank sends at least: bus bandwidth is counted with them
};

// What takes `wire` between hosts with all of the bandwidth, in so many steps that wait for each
// other.
Seconds of_best_protocol(const Network& network, Seconds wire, int steps, Bytes bus_bytes);

Seconds time_of(const Timed& timed, const Rounds& rounds, Order order);

}  // namespace meshwright
