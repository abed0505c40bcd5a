// Loads machine profiles for the commands: the known ones, and that of this computer (`local`).
#pragma once

#include "models/job/job.h"
#include "sim/planner/clusters.h"
#include "tools/options.h"

namespace meshwright {

// Returns a loader of machines by their names. If the profile of --profile has that name, it is
// taken, otherwise a known one. `local` is the profile that `calibrate` wrote, or --profile. If
// there is none, this computer is measured for a few seconds, which a line on standard error tells.
// Prices of --prices come before those of the profile.
MachineLoader machine_loader(const Options& options);

// Reads the job of the command line, which is its one operand. Applies, in this order, the
// overrides of SageMaker's environment, of --for, --by and --budget, and of --set. Prints the job's
// warnings. Throws InputError if the job is wrong or no machine of it uses --profile.
Job read_job_of(const Options& options);

}  // namespace meshwright
