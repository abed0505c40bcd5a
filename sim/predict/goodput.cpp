#include "sim/predict/goodput.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

namespace {

// Bytes of a checkpoint: what the optimizer has of every parameter, in fp32.
double checkpoint_bytes(const Compiled& compiled) {
  int states = 0;
  for (const Program& program : compiled.stages)
    for (const Bucket& bucket : program.buckets) states = std::max(states, bucket.states());
  return 4.0 * states * static_cast<double>(parameter_count(compiled.graph));
}

FailureModel failures_of(const Compiled& compiled, const Cluster& cluster) {
  const Faults& faults = cluster.faults;
  const double of_host = checkpoint_bytes(compiled) / cluster.hosts;
  FailureModel failures;
  failures.mean_time_between_failures_s = *faults.mean_time_between_failures_s / cluster.hosts;
  failures.restart_s = faults.restart_s;
  // Read and written once in the device's memory.
  failures.stall_s =
      2 * of_host / cluster.processes_per_host / cluster.device().memory_bandwidth_bytes_per_s;
  failures.write_s = of_host / faults.checkpoint_bytes_per_s;
  return failures;
}

int best_steps(const FailureModel& failures, double step_time_s) {
  constexpr double most_steps = 2e9;
  const double steps = std::min(best_interval_s(failures) / step_time_s, most_steps);
  const double below = std::max(1.0, std::floor(steps));
  const bool next_is_better =
      goodput(failures, (below + 1) * step_time_s) > goodput(failures, below * step_time_s);
  return static_cast<int>(below) + (next_is_better ? 1 : 0);
}

}  // namespace

double goodput(const FailureModel& failures, double interval_s) {
  const double mean = failures.mean_time_between_failures_s;
  const double first = interval_s + failures.stall_s + failures.write_s;
  const double cycle = std::max(interval_s, failures.write_s) + failures.stall_s;
  return interval_s * std::exp(-(failures.restart_s + first) / mean) /
         (mean * -std::expm1(-cycle / mean));
}

// From w on the derivative vanishes at t = x M with x - 1 + exp(-x - d / M) = 0, between 0 and 1.
// Below w only t exp(-t / M) depends on t; it grows up to M.
double best_interval_s(const FailureModel& failures) {
  const double mean = failures.mean_time_between_failures_s;
  double low = 0, high = 1;
  for (int i = 0; i < 100; ++i) {
    const double x = (low + high) / 2;
    (x + std::expm1(-x - failures.stall_s / mean) < 0 ? low : high) = x;
  }
  return std::max(high * mean, std::min(failures.write_s, mean));
}

std::optional<Goodput> goodput_of(const Compiled& compiled, const Cluster& cluster, int every_steps,
                                  double step_time_s) {
  if (!cluster.faults.mean_time_between_failures_s) return std::nullopt;
  const FailureModel failures = failures_of(compiled, cluster);
  Goodput result;
  result.best_every_steps = best_steps(failures, step_time_s);
  result.best_share = goodput(failures, result.best_every_steps * step_time_s);
  result.every_steps = every_steps > 0 ? every_steps : result.best_every_steps;
  result.share = goodput(failures, result.every_steps * step_time_s);
  result.mean_time_between_failures_s = failures.mean_time_between_failures_s;
  result.checkpoint_write_s = failures.write_s;
  return result;
}

double useful_step_time_s(const Prediction& prediction) {
  return prediction.goodput ? prediction.step_time_s / prediction.goodput->share
                            : prediction.step_time_s;
}

}  // namespace meshwright
