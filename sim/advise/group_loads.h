// The cost of the communication of each group: its bytes, its time, how much of it overlaps with
// compute, and the link that limits it.
#pragma once

#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/timeline.h"
#include "sim/predict/step_parts.h"

namespace meshwright {

// The load of one rank of the stage that StepParts describes, over the whole step.
struct GroupLoad {
  GroupKind group = GroupKind::none;
  double bytes = 0;  // sent, as bytes_moved counts them
  SimTime needed = 0, exposed = 0;
  // The slowest link on the ring through the group, or to the next stage.
  std::string_view link;  // "network"
  double link_bytes_per_s = 0;
};

// Returns the loads of the groups that communicate, in the order of their kinds. `timeline` is the
// timeline of the prediction.
std::vector<GroupLoad> group_loads(const Compiled& compiled, const Prediction& prediction,
                                   const StepParts& parts, const Timeline& timeline,
                                   const Topology& topology);

}  // namespace meshwright
