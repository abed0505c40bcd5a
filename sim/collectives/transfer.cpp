// Times point-to-point sends: transfer_time() of select.h.
#include <algorithm>

#include "sim/collectives/fabric.h"
#include "sim/collectives/select.h"
#include "sim/collectives/timing.h"
#include "sim/network/flows.h"

namespace meshwright::sim {

namespace {

// At most this many pairs are timed, the first ones. In a pipeline over thousands of ranks, the
// other pairs are placed in the same way.
constexpr std::size_t most_pairs = 2048;

// Returns the latency of a send. Inside a host it is that of an all-to-all of two ranks. Between
// hosts a send starts two processes instead of a group, which is assumed to take half as long as to
// start a collective.
Seconds send_latency(const Cluster& cluster, bool crosses_hosts) {
  const CollectiveLatency host = cluster.machine.host_latency, network = cluster.network_latency();
  if (!crosses_hosts) return {host.latency_s + host.step_latency_s};
  return {(host.latency_s + network.latency_s) / 2 + network.step_latency_s};
}

}  // namespace

Seconds transfer_time(const Topology& topology, Bytes bytes,
                      const std::vector<std::pair<int, int>>& concurrent_pairs) {
  if (topology.cluster().fabric) {
    const Cluster& shared = topology.cluster();
    const double share = share_of_cards(shared, spine_loads(shared, concurrent_pairs));
    return transfer_time(with_cards(topology, share), bytes, concurrent_pairs);
  }
  Flows flows(topology);
  for (std::size_t i = 0; i < std::min(concurrent_pairs.size(), most_pairs); ++i)
    flows.add(concurrent_pairs[i].first, concurrent_pairs[i].second, bytes.value);
  if (flows.empty()) return {0};
  const Cluster& cluster = topology.cluster();
  const Seconds latency = send_latency(cluster, flows.crosses_hosts()), wire = flows.slowest();
  const Nvlink& nvlink = cluster.machine.nvlink;
  if (!flows.crosses_hosts())
    return latency + (nvlink.exchange_share > 0 ? of_exchange(nvlink, wire, bytes) : wire);
  return latency + of_best_protocol(cluster.machine.network, wire, 1, bytes);
}

}  // namespace meshwright::sim
