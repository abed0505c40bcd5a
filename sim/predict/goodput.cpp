#include "sim/predict/goodput.h"

#include <algorithm>
#include <cmath>

namespace meshwright::sim {

namespace {

// The mean time between failures, in seconds, if every failure leaves time for a checkpoint.
constexpr double never_s = 1e15;

}  // namespace

int best_every_steps(const FailureModel& failures, double step_time_s) {
  constexpr double most_steps = 2e9;
  const double steps = std::min(best_interval_s(failures) / step_time_s, most_steps);
  const double below = std::max(1.0, std::floor(steps));
  const bool next_is_better =
      goodput(failures, (below + 1) * step_time_s) > goodput(failures, below * step_time_s);
  return static_cast<int>(below) + (next_is_better ? 1 : 0);
}

double goodput(const FailureModel& failures, double interval_s) {
  const double mean = failures.mean_time_between_failures_s;
  const double first = interval_s + failures.stall_s + failures.write_s;
  const double cycle = std::max(interval_s, failures.write_s) + failures.stall_s;
  return interval_s * std::exp(-(failures.restart_s + first) / mean) /
         (mean * -std::expm1(-cycle / mean));
}

// With M the mean time between failures, d the standstill and w the write of a checkpoint: for
// intervals t >= w the derivative of goodput() is 0 at t = x M, where x is between 0 and 1 and x -
// 1 + exp(-x - d / M) = 0. For t < w only t exp(-t / M) depends on t, and it grows up to t = M.
double best_interval_s(const FailureModel& failures) {
  const double mean = failures.mean_time_between_failures_s;
  double low = 0, high = 1;
  for (int i = 0; i < 100; ++i) {
    const double x = (low + high) / 2;
    (x + std::expm1(-x - failures.stall_s / mean) < 0 ? low : high) = x;
  }
  return std::max(high * mean, std::min(failures.write_s, mean));
}

FailureModel failure_model(const ClusterFailures& failures) {
  double sudden_per_s = 0, lost_share = 0;
  for (const FailureSource& source : failures.sources) {
    double outage_s = source.detection_s + failures.restart_s;
    if (source.loses_host && failures.spares == 0)
      outage_s += std::max(0.0, failures.replacement_s - source.notice_s);
    if (failures.can_save(source))
      outage_s += failures.stall_s + failures.write_s;
    else
      sudden_per_s += source.per_s;
    lost_share += source.per_s * outage_s;
  }
  FailureModel model;
  model.mean_time_between_failures_s = sudden_per_s > 0 ? 1 / sudden_per_s : never_s;
  model.restart_s = lost_share * model.mean_time_between_failures_s;
  model.stall_s = failures.stall_s;
  model.write_s = failures.write_s;
  return model;
}

std::optional<Goodput> goodput_of(double checkpoint_bytes, const Cluster& cluster, int every_steps,
                                  double step_time_s) {
  if (!cluster.failures) return std::nullopt;
  const ClusterFailures failures = cluster_failures(checkpoint_bytes, cluster);
  if (failures.sources.empty()) return std::nullopt;
  const FailureModel model = failure_model(failures);
  Goodput result;
  result.best_every_steps = best_every_steps(model, step_time_s);
  result.best_share = goodput(model, result.best_every_steps * step_time_s);
  const bool to_peers = copies_to_peers(*cluster.failures, cluster);
  result.every_steps = every_steps > 0 && !to_peers ? every_steps : result.best_every_steps;
  result.share = goodput(model, result.every_steps * step_time_s);
  result.mean_time_between_failures_s = 1 / failures.per_s();
  result.checkpoint_write_s = failures.write_s;
  return result;
}

std::optional<Goodput> goodput_of(const Compiled& compiled, const Cluster& cluster, int every_steps,
                                  double step_time_s) {
  return goodput_of(checkpoint_bytes(compiled), cluster, every_steps, step_time_s);
}

double highest_goodput(const Cluster& cluster) {
  if (!cluster.failures) return 1;
  const FailureModel model = failure_model(failures_alone(cluster));
  return std::exp(-model.restart_s / model.mean_time_between_failures_s);
}

double useful_step_time_s(const Prediction& prediction) {
  return prediction.goodput ? prediction.step_time_s / prediction.goodput->share
                            : prediction.step_time_s;
}

}  // namespace meshwright::sim
