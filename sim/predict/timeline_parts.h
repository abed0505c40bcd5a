// Splits the time of a step on one rank, by its timeline only, so that a measured step can be
// compared with the predicted one.
#pragma once

#include "sim/predict/step_parts.h"

namespace meshwright::sim {

// Splits the time from the begin of the rank's first instruction to the end of its last one. Time
// without compute is attributed to the communication in flight that began first, or to "idle" if
// there is none. For messages, the part is called "waiting for other stages", because a timeline
// does not show when the peer was ready. Every program has the same parts in the same order, but
// there are none if the rank has no entries. `cluster` is needed to split the time of captured
// segments among classes of kernels.
StepParts timeline_parts(const Program& program, const Cluster& cluster, const Timeline& timeline,
                         int rank);

}  // namespace meshwright::sim
