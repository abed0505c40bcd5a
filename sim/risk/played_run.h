// One run, played from failure to failure. Used by risk.cpp and its tests.
#pragma once

#include "sim/risk/risk.h"

namespace meshwright {

struct PlayedRun {
  bool finished = true;
  double wall_s = 0;
  // Parts of it; the rest is steps that count.
  double lost_s = 0, checkpoints_s = 0, restarts_s = 0, waiting_s = 0;
  std::int64_t failures = 0;
  // By cause, as CauseRisk.
  std::array<double, failure_cause_count> count_of{}, time_of_s{};
};

// `every_steps` of the model is above 0.
PlayedRun play_run(const RunModel& model, std::uint64_t seed, int run);

}  // namespace meshwright
