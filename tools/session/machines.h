// Reads jobs, and loads machine profiles: the known ones, and that of this computer (`local`).
#pragma once

#include "models/job/job.h"
#include "sim/planner/clusters.h"
#include "tools/session/requests.h"
#include "tools/session/watch.h"

namespace meshwright::session {

// Returns a loader of machines by their names. If the given profile has the name that is asked for,
// it is used, otherwise a known profile. For `local`, the local profile is used, or, if there is
// none, a quick profile that was measured today or is measured now, as `watch` is told. Given
// prices come before those of the profile.
MachineLoader machine_loader(const MachineRequest& request, const Watch& watch = {});

// Reads the job. Applies, in this order, the overrides of SageMaker's environment, those of the
// framework, date and budget asked for, and `set`. The job's warnings go to `watch`. Throws
// InputError if the job is wrong or none of its machines uses the profile.
Job read_job_of(const JobRequest& request, const Watch& watch = {});

}  // namespace meshwright::session
