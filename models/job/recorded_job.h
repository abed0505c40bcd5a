// The job around a recorded step of a training script. The script decided what a step computes, so
// only what is around it can be set: the cluster, the objective, failures, and how long the run is.
#pragma once

#include "models/job/job.h"

namespace meshwright::job {

// Reads the job from `overrides`, the texts KEY=VALUE of --set. Without cluster.machine its cluster
// is `machine`, and without cluster.count its list of counts is empty. The job has no model and no
// plan but training.steps. `file` is the recording's name in messages. Throws InputError if a text
// sets anything else, or several machines or counts.
Job read_recorded_job(const std::string& file, const std::string& machine,
                      const std::vector<std::string>& overrides, const MachineLookup& lookup);

}  // namespace meshwright::job
