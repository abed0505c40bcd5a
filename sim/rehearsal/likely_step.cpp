#include "sim/rehearsal/likely_step.h"

namespace meshwright::sim {

namespace {

// Measured by predicted step time, 10th and 90th percentile, of the steps that docs/rehearse.md
// lists.
struct Ratios {
  double low, high;
};
constexpr Ratios kernels_bound = {0.93, 1.05};
constexpr Ratios host_bound = {0.9, 1.1};
constexpr double most_idle = 0.1;  // of a step that kernels bound

}  // namespace

LikelyStep likely_step(const ReplayedStep& step) {
  const double time_s = to_seconds(step.step_time).value;
  const Ratios& ratios =
      to_seconds(step.idle).value > most_idle * time_s ? host_bound : kernels_bound;
  return {time_s * ratios.low, time_s * ratios.high};
}

}  // namespace meshwright::sim
