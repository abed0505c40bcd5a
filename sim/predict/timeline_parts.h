// Where the time of a step goes on one rank, by its timeline alone: so a measured step can be
// compared with the predicted one.
#pragma once

#include "sim/predict/step_parts.h"

namespace meshwright {

// From the begin of the rank's first instruction to the end of its last one. While nothing is
// computed, time is that of the communication under way that began first; of messages it is
// "waiting for other stages", as a timeline does not say when the peer was ready; of nothing it is
// "idle". Every program has the same parts in the same order.
StepParts timeline_parts(const Program& program, const Timeline& timeline, int rank);

}  // namespace meshwright
