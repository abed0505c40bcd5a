// The whole run of a job under failures.
#pragma once

#include <optional>

#include "sim/risk/run_model.h"

namespace meshwright {

struct WholeRun {
  RunModel model;
  RunRisk risk;
  std::optional<SpareWorth> spare;
};

// Played on all cores. None where the job does not say how long the run is, or nothing fails.
std::optional<WholeRun> whole_run(const Job& job, const Compiled& compiled, const Cluster& cluster,
                                  const Prediction& prediction);

}  // namespace meshwright
