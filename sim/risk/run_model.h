// Describes the run that a job asks for, on the cluster and under the plan that were chosen for it.
#pragma once

#include <optional>

#include "models/job/job.h"
#include "sim/risk/risk.h"

namespace meshwright::sim {

// Returns the model of the job's run, or none if nothing fails or the job has neither
// training.steps nor objective.tokens. `prediction` is the prediction of a step of `training`, with
// its goodput.
std::optional<RunModel> run_model(const Job& job, const Training& training, double checkpoint_bytes,
                                  const Cluster& cluster, const Prediction& prediction);

}  // namespace meshwright::sim
