// Simulates one whole run from failure to failure. risk.cpp and its tests use it.
#pragma once

#include "sim/risk/risk.h"

namespace meshwright::sim {

struct PlayedRun {
  bool finished = true;
  double wall_s = 0;
  // Parts of `wall_s`, in seconds. The rest of it is steps that count.
  double lost_s = 0, checkpoints_s = 0, restarts_s = 0, waiting_s = 0;
  std::int64_t failures = 0;
  // Number of failures by cause, and the seconds that they cost, as in CauseRisk.
  std::array<double, failure_cause_count> count_of{}, time_of_s{};
};

// Simulates run number `run` of a seed. Each run number has its own random numbers. `every_steps`
// of the model must be above 0.
PlayedRun play_run(const RunModel& model, std::uint64_t seed, int run);

}  // namespace meshwright::sim
