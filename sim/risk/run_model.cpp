#include "sim/risk/run_model.h"

#include <cmath>

namespace meshwright::sim {

std::optional<RunModel> run_model(const Job& job, const Training& training, double checkpoint_bytes,
                                  const Cluster& cluster, const Prediction& prediction) {
  if (!prediction.goodput || (!job.has_steps && !job.objective.tokens)) return std::nullopt;
  RunModel model;
  model.failures = cluster_failures(checkpoint_bytes, cluster);
  model.step_time_s = prediction.step_time_s;
  model.steps = training.steps;
  if (job.objective.tokens)
    model.steps = std::ceil(*job.objective.tokens / static_cast<double>(training.global_batch) /
                            training.sequence_length);
  model.every_steps = prediction.goodput->every_steps;
  model.hosts = cluster.hosts;
  model.price = prediction.price;
  return model;
}

}  // namespace meshwright::sim
