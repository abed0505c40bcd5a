// Computes what the communication of each process group costs in a predicted step: its bytes, its
// time, how much of it does not overlap with compute, and the link that limits it.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/timeline.h"
#include "sim/predict/step_parts.h"

namespace meshwright::sim {

// The communication of one rank in one group over the whole step. The rank is the first one in the
// timeline on the stage that StepParts describes.
struct GroupLoad {
  GroupKind group = GroupKind::none;
  double bytes = 0;  // sent by the rank, as bytes_moved() counts them (sim/replay/link_uses.h)
  SimTime needed = 0, exposed = 0;
  // The kind of the slowest link on the ring through the ranks of the group, such as "network", and
  // its bandwidth in one direction. For messages between stages, the ring goes through one rank of
  // every stage.
  std::string_view link;
  double link_bytes_per_s = 0;
};

// Returns the loads of the groups that take time in the timeline, in the order of GroupKind.
// `timeline` is the one that predict() filled in for `prediction`.
std::vector<GroupLoad> group_loads(const Compiled& compiled, const Prediction& prediction,
                                   const StepParts& parts, const Timeline& timeline,
                                   const Topology& topology);

}  // namespace meshwright::sim
