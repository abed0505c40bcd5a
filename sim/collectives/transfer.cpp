// Point-to-point sends: transfer_time of select.h.
#include <algorithm>

#include "sim/collectives/select.h"
#include "sim/collectives/timing.h"
#include "sim/network/flows.h"

namespace meshwright {

namespace {

// Of a pipeline over thousands of ranks the first pairs are looked at; the others lie alike.
constexpr std::size_t most_pairs = 2048;

// A send between two ranks starts two processes, not a group: half of what a collective needs (NCCL
// sends of a few bytes inside a host take 15 to 20 us).
Seconds send_latency(const Cluster& cluster, bool crosses_hosts) {
  const CollectiveLatency host = cluster.machine.host_latency, network = cluster.network_latency();
  if (!crosses_hosts) return {host.latency_s / 2 + host.step_latency_s};
  return {(host.latency_s + network.latency_s) / 2 + network.step_latency_s};
}

}  // namespace

Seconds transfer_time(const Topology& topology, Bytes bytes,
                      const std::vector<std::pair<int, int>>& concurrent_pairs) {
  Flows flows(topology);
  for (std::size_t i = 0; i < std::min(concurrent_pairs.size(), most_pairs); ++i)
    flows.add(concurrent_pairs[i].first, concurrent_pairs[i].second, bytes.value);
  if (flows.empty()) return {0};
  const Cluster& cluster = topology.cluster();
  const Seconds latency = send_latency(cluster, flows.crosses_hosts()), wire = flows.slowest();
  if (!flows.crosses_hosts()) return latency + wire;
  return latency + of_best_protocol(cluster.machine.network, wire, 1, bytes);
}

}  // namespace meshwright
