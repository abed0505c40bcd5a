// Machine profiles as the commands see them: the known ones, and this computer (`local`).
#pragma once

#include "models/job/job.h"
#include "sim/planner/clusters.h"
#include "tools/options.h"

namespace meshwright {

// A machine is the one that --profile names, where it has that name; else a known one. `local` is
// the profile that `calibrate` wrote (or --profile names); without one this computer is measured
// for a few seconds, said aloud on standard error.
MachineLoader machine_loader(const Options& options);

// Reads the job of the command line (its one operand) with its --set overrides; prints its
// warnings.
Job read_job_of(const Options& options);

}  // namespace meshwright
