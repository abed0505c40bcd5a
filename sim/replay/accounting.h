// Attributes the time of one rank's compute stream to work, to waiting for launches or
// communication, or to waiting for the compute of a peer (the bubble).
#pragma once

#include "sim/replay/clock.h"
#include "sim/replay/replay.h"

namespace meshwright::sim {

struct Window {
  SimTime begin = 0, end = 0;
};

// Returns the time from the first begin of an instruction of a forward body to the last end of one
// of a backward body (or of its deferred part), on the lane of compute.
Window pipeline_window(const Script& script, const RankTimes& times);

StageTimes account(const Script& script, const RankTimes& times, Window window);

}  // namespace meshwright::sim
