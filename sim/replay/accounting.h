// What the compute stream of one rank did all the time: worked, waited for communication, or
// waited for the compute of a peer (the bubble).
#pragma once

#include "sim/replay/clock.h"
#include "sim/replay/replay.h"

namespace meshwright {

struct Window {
  SimTime begin = 0, end = 0;
};

// First begin of a forward body's first instruction on lane 0, last end of a backward body's last.
Window pipeline_window(const Script& script, const RankTimes& times);

StageTimes account(const Script& script, const RankTimes& times, Window window);

}  // namespace meshwright
