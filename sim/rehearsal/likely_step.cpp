#include "sim/rehearsal/likely_step.h"

namespace meshwright::sim {

namespace {

// Measured by predicted step time, 10th and 90th percentile, of the steps in docs/rehearse.md. In
// 54 of them kernels limit the step. In 7 the host does, whose cores were up to twice as slow as
// those on which the scripts were rehearsed.
struct Ratios {
  double low, high;
  int rows;
};
constexpr Ratios kernels_bound = {0.97, 1.08, 54};
constexpr Ratios host_bound = {0.96, 1.8, 7};
constexpr double most_idle = 0.1;  // share of idle time up to which kernels limit the step

}  // namespace

LikelyStep likely_step(const ReplayedStep& step) {
  const double time_s = to_seconds(step.step_time).value;
  const Ratios& ratios =
      to_seconds(step.idle).value > most_idle * time_s ? host_bound : kernels_bound;
  return {time_s * ratios.low, time_s * ratios.high, ratios.rows};
}

}  // namespace meshwright::sim
