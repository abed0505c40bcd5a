// Where a step lies that was predicted from a recording.
#pragma once

#include "sim/rehearsal/replay_recording.h"

namespace meshwright::sim {

// Bounds between which the step's time lies with a probability of 80 %, in seconds.
struct LikelyStep {
  double low_s = 0, high_s = 0;
};

// Returns them by how far off predictions of published steps were, for a step that kernels bound
// and for one in which the device waits for the host: its own core is known, the target's is not.
LikelyStep likely_step(const ReplayedStep& step);

}  // namespace meshwright::sim
