#include "tools/session/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/core/error.h"
#include "sim/cost/cost.h"
#include "sim/framework/framework_memory.h"
#include "sim/predict/predict.h"

namespace meshwright::session {

namespace {

int count_for(const Recording& recording, const RehearsalRequest& request, int gpus) {
  if (request.count) return *request.count;
  const bool recorded = request.machine.empty() || request.machine == recording.machine;
  return recorded ? recording.ranks / recording.per_host : (recording.ranks + gpus - 1) / gpus;
}

Cluster cluster_for(const Recording& recording, const RehearsalRequest& request,
                    const MachineLoader& load) {
  Cluster cluster;
  cluster.machine = load(request.machine.empty() ? recording.machine : request.machine);
  const int gpus = std::max(1, cluster.machine.gpus);
  cluster.hosts = count_for(recording, request, gpus);
  cluster.processes_per_host = recording.ranks / cluster.hosts;
  if (cluster.ranks() != recording.ranks || cluster.processes_per_host > gpus)
    throw InputError(fmt::format(
        "the {} ranks of the recording cannot be on {} x {} in equal numbers, up to {} on a host; "
        "use another --count or machine",
        recording.ranks, cluster.hosts, cluster.machine.name, gpus));
  return cluster;
}

// Adds the FLOPs of the recording's kernels to those of each precision.
void add_flops_of(const Recording& recording, std::array<double, precision_count>& by_precision) {
  for (const RecordedEvent& event : recording.events) {
    if (event.kernel < 0) continue;
    const RecordedKernel& each = recording.kernels[static_cast<std::size_t>(event.kernel)];
    if (each.kernel.kind == Kernel::Kind::memory) continue;
    by_precision[static_cast<std::size_t>(each.kernel.precision.value_or(Precision::fp32))] +=
        each.flops;
  }
}

void add_flops(const Recording& recording, Rehearsed& result) {
  result.launches = std::ranges::count(recording.events, Recorded::kernel, &RecordedEvent::what);
  std::array<double, precision_count> by_precision{};  // indexed by Precision
  add_flops_of(recording, by_precision);
  for (const Recording& other : recording.others) add_flops_of(other, by_precision);
  const double flops = std::accumulate(by_precision.begin(), by_precision.end(), 0.0) /
                       static_cast<double>(1 + recording.others.size());
  const Gpu device = result.cluster.device();
  const auto most =
      static_cast<Precision>(std::ranges::max_element(by_precision) - by_precision.begin());
  if (result.step_time_s <= 0) return;
  result.model_flops_per_s_per_gpu = flops / result.step_time_s;
  result.mfu =
      result.model_flops_per_s_per_gpu / device.peak(executed_precision(device, most)).value;
}

void add_collectives(const Recording& recording, Rehearsed& result) {
  std::array<CollectiveSum, recorded_collective_count> sums;
  for (const RecordedEvent& event : recording.events) {
    if (event.what != Recorded::collective) continue;
    CollectiveSum& sum = sums[static_cast<std::size_t>(event.collective)];
    sum.kind = event.collective;
    ++sum.count;
    sum.bytes += event.bytes;
  }
  for (const CollectiveSum& sum : sums)
    if (sum.count > 0) result.collectives.push_back(sum);
}

// The allocator gives back what it only keeps before a request fails, so what is allocated decides.
void add_memory(Rehearsed& result) {
  const auto needed = [](const RehearsedRank& rank) {
    return rank.memory.peak_allocated_bytes + rank.memory.refused_bytes;
  };
  result.memory = std::ranges::max(result.ranks, {}, needed).memory;
  result.memory_limit_bytes = script_memory_bytes(result.cluster, result.cluster.ranks());
  result.fits = std::ranges::all_of(result.ranks, [&](const RehearsedRank& rank) {
    return static_cast<double>(needed(rank)) <= result.memory_limit_bytes;
  });
}

void add_steps(const Recording& recording, double host_factor, Rehearsed& result) {
  const Topology topology(result.cluster);
  std::vector<PricedRecording> priced{{&recording, price(recording, topology)}};
  for (const Recording& other : recording.others)
    priced.push_back({&other, price(other, topology)});
  const ReplayedRanks replayed =
      replay_recordings(priced, result.cluster.machine.gpu.kernels.overlap_slowdown,
                        {host_factor, result.cluster.machine.host.driver_launch_us * 1e-6});
  result.ranks_meet = replayed.meet;
  for (std::size_t i = 0; i < priced.size(); ++i)
    result.ranks.push_back(
        {priced[i].recording->rank, replayed.steps[i], priced[i].recording->memory});
  result.step = replayed.steps.front();
  result.step_time_s =
      to_seconds(std::ranges::max(replayed.steps, {}, &ReplayedStep::step_time).step_time).value;
}

void add_price(Rehearsed& result) {
  const PriceChoice choice;
  if (const Price* price = find_price(result.cluster.machine.prices, choice)) result.price = *price;
  result.usd_per_hour = usd_per_hour(result.cluster, choice);
  if (result.usd_per_hour) result.usd_per_step = *result.usd_per_hour / 3600 * result.step_time_s;
}

}  // namespace

double script_memory_bytes(const Cluster& cluster, int ranks) {
  return cluster.machine.framework
             ? framework_limit_bytes(cluster.machine, MemoryOf::pytorch, ranks > 1)
             : cluster.device().memory_bytes - library_bytes(cluster);
}

Rehearsed rehearsed(const Recording& recording, const RehearsalRequest& request,
                    const MachineLoader& load) {
  Rehearsed result;
  result.script = recording.script;
  result.notes = recording.notes;
  result.recorded_on = recording.machine;
  result.cluster = cluster_for(recording, request, load);
  add_steps(recording, request.host_factor, result);
  add_flops(recording, result);
  add_collectives(recording, result);
  add_memory(result);
  add_price(result);
  return result;
}

}  // namespace meshwright::session
