// Predicts how long rounds of transfers take on a topology when several groups run them in step.
// Every round lasts as long as its slowest transfer under max-min fair shares, and each step that
// waits for another adds a latency. Rounds inside hosts and rounds between hosts work on different
// chunks at the same time. Therefore the longer of the two counts in full, and only the first chunk
// of the shorter one. Without NVLink both use the PCIe links, so they are added.
//
// An Order says how the members of a host are assigned to the places of the rounds: in the order of
// each of its rings (also for `exchange`, an all-to-all), of its line, or of its passages
// (group.h). A tree also follows the passages, but moves no more through each network card than the
// profile says. If the switch adds up (`in_switch`), all members are placed alike, so their order
// does not matter.
//
// The fastest of NCCL's protocols (protocols.h) is taken. Sums in the switch use Simple.
#pragma once

#include "models/core/units.h"
#include "sim/collectives/group.h"
#include "sim/collectives/protocols.h"

namespace meshwright::sim {

enum class Order : std::uint8_t { lanes, line, passages, tree, in_switch, exchange };

struct Timed {
  const Topology& topology;
  const std::vector<PlacedGroup>& groups;  // groups with equal grids; the first one is timed
  Bytes bytes;
  Bytes bus_bytes;  // the least that a rank sends, by which bus bandwidth is defined
  Bytes own;        // the part of the buffer that belongs to a rank; 0: none does
  Protocols protocols = Protocols::all;
};

Seconds time_of(const Timed& timed, const Rounds& rounds, Order order);

}  // namespace meshwright::sim
