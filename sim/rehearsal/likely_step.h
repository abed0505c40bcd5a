// The interval of a step that was predicted from a recording.
#pragma once

#include "sim/rehearsal/replay_recording.h"

namespace meshwright::sim {

// Bounds between which the step's time lies with a probability of 80 %, in seconds.
struct LikelyStep {
  double low_s = 0, high_s = 0;
  int rows = 0;  // published steps behind it
};

// Returns them by how far off predictions of published steps were: less for a step that kernels
// bound than for one in which the device waits for the host, whose core nobody knows.
LikelyStep likely_step(const ReplayedStep& step);

}  // namespace meshwright::sim
