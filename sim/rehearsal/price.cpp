#include "sim/rehearsal/price.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "models/core/error.h"
#include "sim/rehearsal/kernel_prices.h"
#include "sim/replay/port_loads.h"

namespace meshwright::sim {

namespace {

constexpr std::array<std::string_view, recorded_work_count> use_names = {
    "matrix products", "attention", "other kernels", "optimizer", "host copies", "communication"};

// Says how a collective is timed, and how many bytes of its whole buffer a rank of n sends in a
// ring: `passes` times (n - 1) / n of them, or all if `passes` is 0.
struct CollectiveRow {
  RecordedCollective recorded;
  CollectiveKind kind;
  bool counts_one_part;  // whether the recorded bytes are one of n parts of the buffer
  double passes;
};

// Sends and receives are not collectives and have no row.
constexpr CollectiveRow collective_rows[] = {
    {RecordedCollective::all_reduce, CollectiveKind::all_reduce, false, 2},
    {RecordedCollective::all_gather, CollectiveKind::all_gather, true, 1},
    {RecordedCollective::reduce_scatter, CollectiveKind::reduce_scatter, true, 1},
    {RecordedCollective::broadcast, CollectiveKind::broadcast, false, 0},
    {RecordedCollective::reduce, CollectiveKind::reduce, false, 0},
    {RecordedCollective::all_to_all, CollectiveKind::all_to_all, true, 1},
};

double moved(const CollectiveRow& row, double whole, int members) {
  return row.passes == 0 ? whole : row.passes * (1 - 1.0 / members) * whole;
}

bool is_of_optimizer(std::string_view operation) {
  const std::string_view name =
      operation.substr(operation.find("::") == operation.npos ? 0 : operation.find("::") + 2);
  return name.starts_with("_foreach_") || name.starts_with("_fused_adam") ||
         name.starts_with("_fused_sgd") || name.starts_with("_fused_adagrad");
}

// Returns which kernel of fused attention an operation runs, by its name.
AttentionKernel attention_of(std::string_view operation) {
  const auto has = [&](std::string_view part) { return operation.find(part) != operation.npos; };
  if (has("cudnn_attention")) return AttentionKernel::cudnn;
  if (has("flash_attn_3")) return AttentionKernel::flash3;
  return AttentionKernel::flash2;
}

// Converts seconds to picoseconds. Throws InputError for 1e6 seconds (11 days) or more.
SimTime checked_sim_time(Seconds time) {
  constexpr double longest_s = 1e6;
  if (!(time.value < longest_s))
    throw InputError(
        "one event of the recording would take more than 11 days; look at its sizes and at the "
        "machine's bandwidths");
  return to_sim_time(time);
}

class Pricer {
 public:
  Pricer(const Recording& recording, const Topology& topology)
      : recording_(recording),
        topology_(topology),
        kernels_on_(topology.cluster()),
        slowest_(straggling(topology.cluster().machine.gpu.kernels, recording.ranks, 1)) {}

  PricedEvent of(const RecordedEvent& event) {
    switch (event.what) {
      case Recorded::kernel:
        return of_kernel(event);
      case Recorded::collective:
        return of_communication(event);
      case Recorded::copy:
        return of_copy(event);
      case Recorded::set:
        return {of_bytes(static_cast<double>(event.bytes)), RecordedWork::others};
      case Recorded::record:
      case Recorded::wait:
      case Recorded::host_waits:
        break;
    }
    return {};
  }

 private:
  SimTime of_bytes(double bytes) const {
    return checked_sim_time(kernels_on_.of(Kernel{.bytes = bytes}) * slowest_);
  }

  PricedEvent of_kernel(const RecordedEvent& event) {
    const RecordedWork use = recorded_work(recording_, event);
    if (event.kernel < 0) return {of_bytes(0), use};
    const Kernel& kernel = recording_.kernels[static_cast<std::size_t>(event.kernel)].kernel;
    const AttentionKernel attention =
        event.op < 0 ? AttentionKernel::flash2
                     : attention_of(recording_.operations[static_cast<std::size_t>(event.op)]);
    const auto [found, is_new] = kernels_.try_emplace({event.kernel, attention});
    if (is_new) found->second = checked_sim_time(kernels_on_.of(kernel, attention) * slowest_);
    return {found->second, use};
  }

  PricedEvent of_copy(const RecordedEvent& event) const {
    const auto bytes = static_cast<double>(event.bytes);
    if (event.direction == CopyDirection::on_device)
      return {of_bytes(2 * bytes), RecordedWork::others};  // each byte is read and written
    const Seconds time{bytes / host_copy_bandwidth(topology_.cluster())};
    return {
        checked_sim_time(time) + of_bytes(0), RecordedWork::copies,
        loads_of_host_copy(event.direction == CopyDirection::to_host, topology_.cluster().machine)};
  }

  PricedEvent of_communication(const RecordedEvent& event) {
    const auto [found, is_new] =
        communication_.try_emplace({event.collective, event.group, event.peer, event.bytes},
                                   PricedEvent{0, RecordedWork::communication});
    if (!is_new) return found->second;
    const std::vector<int>& group = recording_.groups[static_cast<std::size_t>(event.group)];
    if (event.collective >= RecordedCollective::send)
      set_message(event, group, found->second);
    else
      set_collective(event, group, found->second);
    return found->second;
  }

  void set_collective(const RecordedEvent& event, const std::vector<int>& group,
                      PricedEvent& priced) const {
    const auto& row =
        *std::ranges::find(collective_rows, event.collective, &CollectiveRow::recorded);
    const int members = static_cast<int>(group.size());
    const double whole = static_cast<double>(event.bytes) * (row.counts_one_part ? members : 1);
    const Seconds time =
        collective_time(topology_, row.kind, {whole}, concurrent_groups(group, recording_.ranks));
    const int here = ranks_here(group);
    priced.lasts = checked_sim_time(time);
    priced.loads = loads_of(
        {true, true, here < members, here, moved(row, whole, members), moved(row, whole, here)},
        topology_, time);
  }

  void set_message(const RecordedEvent& event, const std::vector<int>& group,
                   PricedEvent& priced) const {
    const bool sends = event.collective == RecordedCollective::send;
    const auto own = std::ranges::find(group, recording_.rank) - group.begin();
    std::vector<std::pair<int, int>> pairs;
    for (const std::vector<int>& each : concurrent_groups(group, recording_.ranks)) {
      const int here = each[static_cast<std::size_t>(own)];
      const int there = each[static_cast<std::size_t>(event.peer)];
      if (here != there) pairs.push_back(sends ? std::pair(here, there) : std::pair(there, here));
    }
    const auto bytes = static_cast<double>(event.bytes);
    const Seconds time = transfer_time(topology_, {bytes}, pairs);
    const int here = ranks_here({recording_.rank, group[static_cast<std::size_t>(event.peer)]});
    priced.lasts = checked_sim_time(time);
    priced.loads = loads_of({sends, !sends, here == 1, here, bytes, bytes}, topology_, time);
  }

  // Returns how many ranks of the group are on the recorded rank's host.
  int ranks_here(const std::vector<int>& group) const {
    const Cluster& cluster = topology_.cluster();
    return static_cast<int>(std::ranges::count_if(group, [&](int rank) {
      return cluster.host_of(rank) == cluster.host_of(recording_.rank);
    }));
  }

  const Recording& recording_;
  const Topology& topology_;
  KernelPrices kernels_on_;
  double slowest_;
  std::map<std::pair<int, AttentionKernel>, SimTime> kernels_;
  std::map<std::tuple<RecordedCollective, int, int, std::int64_t>, PricedEvent> communication_;
};

void check_cluster(const Recording& recording, const Cluster& cluster) {
  if (cluster.machine.gpu.kind != DeviceKind::gpu)
    throw InputError(cluster.machine.name +
                     ": has no GPUs, for which the script was rehearsed; use another machine");
  if (cluster.ranks() != recording.ranks)
    throw InputError("the recording has " + std::to_string(recording.ranks) +
                     " ranks and the cluster " + std::to_string(cluster.ranks()) +
                     "; rehearse the script with as many");
}

}  // namespace

std::string_view name_of(RecordedWork use) { return use_names[static_cast<std::size_t>(use)]; }

RecordedWork recorded_work(const Recording& recording, const RecordedEvent& event) {
  if (event.what == Recorded::collective) return RecordedWork::communication;
  if (event.what == Recorded::copy && event.direction != CopyDirection::on_device)
    return RecordedWork::copies;
  if (event.kernel >= 0)
    switch (recording.kernels[static_cast<std::size_t>(event.kernel)].kernel.kind) {
      case Kernel::Kind::attention:
        return RecordedWork::attention;
      case Kernel::Kind::gemm:
      case Kernel::Kind::batched_gemm:
        return RecordedWork::products;
      default:
        break;
    }
  const bool steps = event.what == Recorded::kernel && event.op >= 0 &&
                     is_of_optimizer(recording.operations[static_cast<std::size_t>(event.op)]);
  return steps ? RecordedWork::optimizer : RecordedWork::others;
}

std::vector<PricedEvent> price(const Recording& recording, const Topology& topology) {
  check_cluster(recording, topology.cluster());
  Pricer pricer(recording, topology);
  std::vector<PricedEvent> priced;
  priced.reserve(recording.events.size());
  for (const RecordedEvent& event : recording.events) priced.push_back(pricer.of(event));
  return priced;
}

Groups concurrent_groups(const std::vector<int>& group, int ranks) {
  const int lowest = std::ranges::min(group), highest = std::ranges::max(group);
  std::vector<bool> taken(static_cast<std::size_t>(ranks));
  Groups groups;
  for (int first = 0; first + highest - lowest < ranks; ++first) {
    std::vector<int> shifted = group;
    for (int& rank : shifted) rank += first - lowest;
    if (std::ranges::any_of(shifted,
                            [&](int rank) { return taken[static_cast<std::size_t>(rank)]; }))
      continue;
    for (const int rank : shifted) taken[static_cast<std::size_t>(rank)] = true;
    groups.push_back(std::move(shifted));
  }
  if (std::ranges::find(groups, group) == groups.end()) return {group};
  return groups;
}

}  // namespace meshwright::sim
