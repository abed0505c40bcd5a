// Returns the interval of a step that was predicted from a recording.
#pragma once

#include "sim/rehearsal/replay_recording.h"

namespace meshwright::sim {

// The bounds, in seconds, between which the step time is with a probability of 80 %.
struct LikelyStep {
  double low_s = 0, high_s = 0;
  int rows = 0;  // number of published steps that the bounds are derived from
};

// Returns the bounds, by how far off predictions of published steps were. The interval is narrower
// for a step that kernels limit than for one in which the device waits for the host, because the
// speed of the host's cores is not known.
LikelyStep likely_step(const ReplayedStep& step);

}  // namespace meshwright::sim
