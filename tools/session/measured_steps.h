// Times a few training steps in this process.
#pragma once

#include "hwprofiles/machine.h"
#include "models/compiler/compile.h"
#include "models/job/job.h"

namespace meshwright::session {

// Throws NotSupportedYet for a captured model, which no kernels of ours compute.
void check_has_kernels(const Job& job);
// Throws InputError unless the job runs on this computer, on one rank.
void check_measurable(const Job& job);

// Returns the seconds of a step: the median of `measured_steps` steps after two or three steps of
// warm-up on so many threads. `cluster` is this computer, and `compiled` a plan of one rank. The
// job's checkpoints and logs stay untouched.
constexpr int measured_steps = 3;
double measured_step_seconds(int threads, const Job& job, const Cluster& cluster,
                             const Compiled& compiled);

}  // namespace meshwright::session
