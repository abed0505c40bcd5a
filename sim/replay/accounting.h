// Attributes the time of one rank's compute stream to work, to waiting for communication, or to
// waiting for the compute of a peer (the bubble).
#pragma once

#include "sim/replay/clock.h"
#include "sim/replay/replay.h"

namespace meshwright {

struct Window {
  SimTime begin = 0, end = 0;
};

// Returns the window from the first begin of a forward body's first instruction on lane 0 to the
// last end of a backward body's last instruction.
Window pipeline_window(const Script& script, const RankTimes& times);

StageTimes account(const Script& script, const RankTimes& times, Window window);

}  // namespace meshwright
