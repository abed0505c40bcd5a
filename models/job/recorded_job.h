// Reads the job around a recorded step of a training script. The script decided what a step
// computes, so only other things can be set: the cluster, the objective, failures, how often
// checkpoints are saved, and how many steps the run has.
#pragma once

#include "models/job/job.h"

namespace meshwright::job {

// Reads the job from `overrides`, the texts KEY=VALUE of --set. Without cluster.machine its machine
// is `machine`, and without cluster.count its list of counts is empty. The job has no model, and
// its plan has nothing but training.steps. `file` is the recording's name in messages. Throws
// InputError if a text sets anything else, or several machines or counts.
Job read_recorded_job(const std::string& file, const std::string& machine,
                      const std::vector<std::string>& overrides, const MachineLookup& lookup);

}  // namespace meshwright::job
