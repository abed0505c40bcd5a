#include "sim/collectives/timing.h"

#include <algorithm>

#include "sim/network/flows.h"

namespace meshwright::sim {

namespace {

// Transfers with an end on one of the first hosts of a group, this many, are timed. Those of its
// other hosts are alike.
constexpr int most_hosts = 4;
// A collective over hosts is a pipeline of two levels, inside hosts and between them. It has one
// chunk for this many bytes, at least 1 and at most `most_pipeline_chunks`, which need not be
// whole.
constexpr double pipeline_chunk_bytes = 64.0 * (1 << 20);
constexpr double most_pipeline_chunks = 16;

// Returns the rank of the group that takes position `place` of the rounds if the members of each
// host are in the order of `lane`.
int rank_at(const PlacedGroup& group, const std::vector<int>& lane, int place) {
  const int per_host = group.grid.per_host;
  return group.ranks[place / per_host * per_host + lane[place % per_host]];
}

int direct_links(const Topology& topology, int from, int to) {
  const Cluster& cluster = topology.cluster();
  if (cluster.host_of(from) != cluster.host_of(to)) return 1;
  const int ranks = cluster.processes_per_host;
  return std::max(1, topology.direct_nvlinks(from % ranks, to % ranks));
}

bool same_transfers(const Round& a, const Round& b) {
  return std::equal(a.transfers.begin(), a.transfers.end(), b.transfers.begin(), b.transfers.end(),
                    [](const Transfer& x, const Transfer& y) {
                      return x.from == y.from && x.to == y.to && x.count == y.count;
                    });
}

const std::vector<std::vector<int>>& orders(const PlacedGroup& group, Order order) {
  return order == Order::passages || order == Order::tree ? group.passages : group.lanes;
}

struct RoundTime {
  Seconds wire;
  bool crosses_hosts = false;
};

void add_flows(const Timed& timed, const Rounds& rounds, const Round& round,
               const PlacedGroup& group, Order order, Flows& flows) {
  const std::vector<std::vector<int>> line = {group.line};
  const auto& lanes = order == Order::line ? line : orders(group, order);
  const double chunk = timed.bytes.value * rounds.chunk_share / static_cast<double>(lanes.size());
  for (const Transfer& transfer : round.transfers) {
    const int per_host = group.grid.per_host;
    if (std::min(transfer.from / per_host, transfer.to / per_host) >= most_hosts) continue;
    for (const std::vector<int>& lane : lanes) {
      const int from = rank_at(group, lane, transfer.from), to = rank_at(group, lane, transfer.to);
      // A line uses one channel, that is, one link of a pair of GPUs with several direct links. But
      // flows spread over all links of a pair, so the bytes are multiplied by the number of links.
      const int links = order == Order::line ? direct_links(timed.topology, from, to) : 1;
      flows.add(from, to, chunk * transfer.count * links);
    }
  }
}

RoundTime time_of_round(const Timed& timed, const Rounds& rounds, const Round& round, Order order) {
  Flows flows(timed.topology);
  for (const PlacedGroup& group : timed.groups)
    add_flows(timed, rounds, round, group, order, flows);
  return {flows.slowest(), flows.crosses_hosts()};
}

// Returns the time of a collective inside a host, without the latency of its steps. `wire` is the
// time of its bytes at the bandwidth that `order` reaches, and `steps` counts steps that wait for
// each other.
Seconds inside_host(const Timed& timed, Seconds wire, int steps, Order order) {
  const Machine& machine = timed.topology.cluster().machine;
  const Nvlink& nvlink = machine.nvlink;
  if (nvlink.kind == NvlinkKind::none) return of_best_protocol(machine.pcie, wire);
  if (order == Order::exchange && nvlink.exchange_share > 0)
    return of_exchange(nvlink, wire, timed.own);
  if (order != Order::in_switch)
    return of_best_protocol(nvlink, {wire, timed.own, steps}, timed.protocols);
  const double bandwidth =
      nvlink.links_per_gpu * nvlink.link_bandwidth_bytes_per_s * nvlink.nvls_efficiency;
  return wire + Seconds{std::min(timed.bus_bytes.value, nvlink.nvls_ramp_bytes) / bandwidth};
}

}  // namespace

Seconds time_of(const Timed& timed, const Rounds& rounds, Order order) {
  const Cluster& cluster = timed.topology.cluster();
  const CollectiveLatency host = cluster.machine.host_latency, network = cluster.network_latency();
  const PlacedGroup& group = timed.groups[0];
  Seconds inside, across, latency;
  int host_steps = 0, network_steps = 0;
  bool any_across = false;
  // The times of the rounds so far. A gathering round often has the transfers of a reducing one,
  // whose time is then used again.
  std::vector<RoundTime> times;
  for (const Round& round : rounds.rounds) {
    const auto alike =
        std::find_if(rounds.rounds.begin(), rounds.rounds.begin() + std::ssize(times),
                     [&](const Round& done) { return same_transfers(done, round); });
    const auto index = static_cast<std::size_t>(alike - rounds.rounds.begin());
    times.push_back(index < times.size() ? times[index]
                                         : time_of_round(timed, rounds, round, order));
    const RoundTime time = times.back();
    (time.crosses_hosts ? across : inside) += time.wire * round.repeat;
    any_across = any_across || time.crosses_hosts;
    const int crossing = time.crosses_hosts ? round.latency_steps - round.host_steps : 0;
    host_steps += round.latency_steps - crossing;
    network_steps += crossing;
  }
  latency += Seconds{host.latency_s + host.step_latency_s * host_steps +
                     network.step_latency_s * network_steps};
  if (any_across) latency += Seconds{network.latency_s};

  const Nvlink& nvlink = cluster.machine.nvlink;
  const Network& cards = cluster.machine.network;
  if (order == Order::in_switch) {
    inside = inside * (nvlink.efficiency / nvlink.nvls_efficiency);
    latency += Seconds{nvlink.nvls_latency_s};
  } else if (nvlink.kind != NvlinkKind::none) {
    inside = inside / nvlink.group.at(group.grid.per_host);
  }
  if (!any_across) return latency + inside_host(timed, inside, host_steps, order);
  if (order == Order::tree && cards.tree_bandwidth_bytes_per_s > 0)
    across = std::max(across,
                      Seconds{timed.bytes.value / (group.nics * cards.tree_bandwidth_bytes_per_s)});
  if (nvlink.kind == NvlinkKind::none) {  // both levels use the PCIe links
    across += inside;
    inside = {0};
  }
  const double chunks =
      std::clamp(timed.bytes.value / pipeline_chunk_bytes, 1.0, most_pipeline_chunks);
  const Seconds wire = std::max(inside, across) + std::min(inside, across) / chunks;
  if (order == Order::in_switch)
    return latency + wire + Seconds{cards.simple_step_latency_s * network_steps};
  return latency + of_best_protocol(cards, wire, network_steps, timed.bus_bytes);
}

}  // namespace meshwright::sim
