#include "sim/predict/loading.h"

#include <algorithm>
#include <cmath>

namespace meshwright::sim {

int LoadingTime::workers_needed(double step_time_s) const {
  return static_cast<int>(std::ceil(decode_s * workers / step_time_s));
}

LoadingTime loading_time(const DataLoading& loading, const Plan& plan, const Cluster& cluster) {
  const int replicas = plan.parallelism.data;
  const double of_replica = static_cast<double>(plan.training.global_batch) / replicas;
  const int ranks_of_replica = std::max(1, cluster.ranks() / replicas);
  const int replicas_on_host = std::max(1, cluster.processes_per_host / ranks_of_replica);
  LoadingTime time;
  time.workers = std::max(1, loading.workers);
  time.decode_s = of_replica * loading.decode_s / time.workers;
  if (loading.storage_bytes_per_s > 0)
    time.read_s = of_replica * std::min(replicas, replicas_on_host) * loading.bytes_per_sample /
                  loading.storage_bytes_per_s;
  return time;
}

}  // namespace meshwright::sim
