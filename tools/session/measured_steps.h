// Times a few training steps in this process.
#pragma once

#include "hwprofiles/machine.h"
#include "models/compiler/compile.h"
#include "models/job/job.h"

namespace meshwright::session {

// Throws NotSupportedYet for a captured model, because this engine has no kernels for its segments.
void check_has_kernels(const Job& job);
// Throws InputError unless the job's machine is this computer and the job has one rank, and
// NotSupportedYet for a captured model.
void check_measurable(const Job& job);

// Returns the seconds of a step: the median of `measured_steps` steps on `threads` threads. Before
// these come two steps of warm-up if the backend captures graphs, otherwise one. `cluster` is this
// computer, and `compiled` a plan of one rank. The job's checkpoints and logs stay untouched.
constexpr int measured_steps = 3;
double measured_step_seconds(int threads, const Job& job, const Cluster& cluster,
                             const Compiled& compiled);

}  // namespace meshwright::session
