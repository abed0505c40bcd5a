// Simulates the whole run of a job under failures.
#pragma once

#include <optional>

#include "sim/risk/run_model.h"

namespace meshwright::sim {

struct WholeRun {
  RunModel model;
  RunRisk risk;
  std::optional<SpareWorth> spare;
};

// Simulate the run of a job on all cores. Return nothing if nothing fails, or if the job does not
// say how long its run is (training.steps or objective.tokens). The batch of the run is that of
// `training` or of the compiled plan.
std::optional<WholeRun> whole_run(const Job& job, const Training& training, double checkpoint_bytes,
                                  const Cluster& cluster, const Prediction& prediction);
std::optional<WholeRun> whole_run(const Job& job, const Compiled& compiled, const Cluster& cluster,
                                  const Prediction& prediction);

}  // namespace meshwright::sim
