#include "sim/planner/network_times.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

// Seconds per byte are taken from a transfer of this size, where latency hardly counts. The
// allowance removes what latency still adds.
constexpr double large_transfer_bytes = 4.0 * (1LL << 30);
constexpr double latency_allowance = 0.98;

// Returns the distance in ranks between neighbours on an axis of the mesh: P (stages), T (tensor)
// or D (replicas).
int stride_of(const Candidate& candidate, char axis) {
  int stride = 1;
  const std::string_view order = order_of_axes(candidate.placement);
  for (std::size_t i = order.size(); i-- > 0;) {
    if (order[i] == axis) break;
    stride *= order[i] == 'P'   ? candidate.pipeline
              : order[i] == 'T' ? candidate.tensor
                                : candidate.replicas();
  }
  return stride;
}

}  // namespace

NetworkTimes::Axis NetworkTimes::axis(const Candidate& candidate, GroupKind group) {
  const bool is_tensor = group == GroupKind::tensor;
  const int stride = stride_of(candidate, is_tensor ? 'T' : 'D');
  if (is_tensor) return {group, stride, candidate.tensor};
  const bool by_experts = group == GroupKind::expert || group == GroupKind::expert_rdp ||
                          group == GroupKind::expert_shard || group == GroupKind::expert_replica;
  const bool over_tensor = by_experts && candidate.experts_over_tensor();
  const bool in_context = group == GroupKind::context || group == GroupKind::context_heads ||
                          group == GroupKind::context_ring;
  return {group,
          stride,
          candidate.replicas(),
          in_context ? candidate.context : candidate.shards(),
          in_context ? candidate.context_heads : 1,
          by_experts ? candidate.expert : 1,
          over_tensor ? stride_of(candidate, 'T') : 0,
          over_tensor ? candidate.tensor : 1};
}

// Returns the groups with a rank on one of the first two hosts of the group of rank 0. The other
// groups are placed in the same way, and leaving them out never makes a collective slower.
const Groups& NetworkTimes::groups(const Candidate& candidate, const Axis& axis) {
  return groups_.get(axis, [&] { return find_groups(candidate, axis); });
}

Groups NetworkTimes::find_groups(const Candidate& candidate, const Axis& axis) const {
  const Mesh mesh(candidate.degrees(), candidate.placement);
  const Cluster& cluster = topology_.cluster();
  const int per_host = cluster.processes_per_host;
  const std::vector<int> first = mesh.group(axis.group, 0);
  const auto other = std::find_if(first.begin(), first.end(),
                                  [&](int rank) { return cluster.host_of(rank) != 0; });
  std::vector<int> hosts = {0};
  if (other != first.end()) hosts.push_back(cluster.host_of(*other));
  Groups found;
  for (const int host : hosts)
    for (int rank = host * per_host; rank < (host + 1) * per_host; ++rank) {
      std::vector<int> members = mesh.group(axis.group, rank);
      if (std::find(found.begin(), found.end(), members) == found.end())
        found.push_back(std::move(members));
    }
  return found;
}

double NetworkTimes::collective(const Candidate& candidate, GroupKind group, CollectiveKind kind,
                                double bytes) {
  const Axis lies = axis(candidate, group);
  return times_.get({lies, kind, bytes}, [&] {
    return collective_time(topology_, kind, {bytes}, groups(candidate, lies)).value;
  });
}

double NetworkTimes::deduplicated(const Candidate& candidate, GroupKind group,
                                  const ExpertChoices& choices, double bytes) {
  const Axis lies = axis(candidate, group);
  return deduplicated_times_.get({lies, choices, bytes}, [&] {
    return deduplicated_time(topology_, choices, {bytes}, groups(candidate, lies)).value;
  });
}

double NetworkTimes::per_byte(const Candidate& candidate, GroupKind group, CollectiveKind kind) {
  return latency_allowance * collective(candidate, group, kind, large_transfer_bytes) /
         large_transfer_bytes;
}

double NetworkTimes::shift(const Candidate& candidate, double bytes) {
  const Axis lies = axis(candidate, candidate.degrees().ring_group());
  return shift_times_.get({lies, bytes}, [&] {
    std::vector<std::pair<int, int>> pairs;
    for (const std::vector<int>& group : groups(candidate, lies))
      for (std::size_t i = 0; i < group.size(); ++i)
        pairs.emplace_back(group[i], group[(i + 1) % group.size()]);
    return transfer_time(topology_, {bytes}, pairs).value;
  });
}

// Returns the (sender, receiver) pairs of stage `from` and the next stage on one host of stage
// `from`. All of its ranks of this stage send at the same time.
std::vector<std::pair<int, int>> NetworkTimes::senders(const Mesh& mesh, int from) const {
  const Cluster& cluster = topology_.cluster();
  const int host = cluster.host_of(mesh.rank({from, 0, 0}));
  std::vector<std::pair<int, int>> pairs;
  for (int local = 0; local < cluster.processes_per_host; ++local) {
    const int rank = host * cluster.processes_per_host + local;
    Coordinates place = mesh.coordinates(rank);
    if (place.pipeline != from) continue;
    ++place.pipeline;
    pairs.emplace_back(rank, mesh.rank(place));
  }
  return pairs;
}

const std::vector<NetworkTimes::Boundary>& NetworkTimes::boundaries(const Candidate& candidate,
                                                                    std::int64_t bytes) {
  const Mesh mesh(candidate.degrees(), candidate.placement);
  return boundaries_.get({candidate.pipeline, mesh.rank({1, 0, 0}), bytes},
                         [&] { return find_boundaries(mesh, bytes); });
}

// Returns the boundaries between stages. Boundaries whose ranks have the same positions relative to
// their first host take the same time, so each placement is timed once.
std::vector<NetworkTimes::Boundary> NetworkTimes::find_boundaries(const Mesh& mesh,
                                                                  std::int64_t bytes) const {
  const Cluster& cluster = topology_.cluster();
  std::vector<Boundary> found;
  std::map<std::vector<std::pair<int, int>>, Boundary> alike;
  for (int from = 0; from + 1 < mesh.degrees().pipeline; ++from) {
    const std::vector<std::pair<int, int>> pairs = senders(mesh, from);
    const int host = cluster.host_of(pairs[0].first);
    std::vector<std::pair<int, int>> from_first = pairs;
    for (auto& [sender, receiver] : from_first)
      sender -= host * cluster.processes_per_host, receiver -= host * cluster.processes_per_host;
    const auto [known, is_new] = alike.try_emplace(std::move(from_first));
    if (is_new)
      known->second = {host != cluster.host_of(pairs[0].second),
                       transfer_time(topology_, {static_cast<double>(bytes)}, pairs).value};
    found.push_back(known->second);
  }
  return found;
}

}  // namespace meshwright::sim
