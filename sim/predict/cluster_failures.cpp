#include "sim/predict/cluster_failures.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

constexpr double seconds_per_hour = 3600, bits_per_gbit = 1e9;

// Returns the bandwidth, in bytes per second, from one host to where its checkpoints go.
double write_bytes_per_s(const Failures& failures, const Cluster& cluster) {
  if (!copies_to_peers(failures, cluster)) return failures.checkpoint_bytes_per_s;
  const Network network = cluster.network();
  return network.nics * network.gbit_per_s_each * bits_per_gbit / 8 * network.efficiency;
}

FailureSource source_of(const FailureCauseInfo& info, const Failures& failures,
                        const Cluster& cluster) {
  FailureSource source;
  source.cause = info.cause;
  source.loses_host = info.loses_host;
  source.per_s = failures.rate_per_host_hour(info.cause, cluster.machine.gpus) * cluster.hosts /
                 seconds_per_hour;
  if (info.cause == FailureCause::hang) source.detection_s = failures.hang_detection_s;
  if (info.cause == FailureCause::preemption) source.notice_s = failures.preemption_notice_s;
  if (info.cause == FailureCause::maintenance) source.notice_s = failures.maintenance_notice_s;
  return source;
}

}  // namespace

double checkpoint_bytes(const Compiled& compiled) {
  int states = 0;
  for (const Program& program : compiled.stages)
    for (const Bucket& bucket : program.buckets) states = std::max(states, bucket.states());
  double saved = 0;
  for (const Parameter& parameter : compiled.graph.parameters)
    if (parameter.counted && parameter.trainable)
      saved += static_cast<double>(parameter.global_shape.elements());
  return 4.0 * states * saved;
}

bool copies_to_peers(const Failures& failures, const Cluster& cluster) {
  return failures.recovery == Recovery::peer_memory && cluster.hosts > 1;
}

double ClusterFailures::per_s() const {
  double sum = 0;
  for (const FailureSource& source : sources) sum += source.per_s;
  return sum;
}

ClusterFailures failures_alone(const Cluster& cluster) {
  const Failures& failures = cluster.failures.value();
  ClusterFailures result;
  for (const FailureCauseInfo& info : failure_causes()) {
    const FailureSource source = source_of(info, failures, cluster);
    if (source.per_s > 0) result.sources.push_back(source);
  }
  result.restart_s = failures.restart_time_s();
  result.replacement_s = failures.replacement_s;
  result.spares = failures.spare_hosts();
  return result;
}

ClusterFailures cluster_failures(double checkpoint_bytes, const Cluster& cluster) {
  ClusterFailures result = failures_alone(cluster);
  const double of_host = checkpoint_bytes / cluster.hosts;
  // The state is read and written once in the device's memory.
  result.stall_s =
      2 * of_host / cluster.processes_per_host / cluster.device().memory_bandwidth_bytes_per_s;
  result.write_s = of_host / write_bytes_per_s(*cluster.failures, cluster);
  return result;
}

}  // namespace meshwright::sim
