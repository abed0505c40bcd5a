#include "tools/session/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>

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

void add_flops(const Recording& recording, Rehearsed& result) {
  std::array<double, 6> by_precision{};  // indexed by Precision
  double flops = 0;
  for (const RecordedEvent& event : recording.events) {
    if (event.what == Recorded::kernel) ++result.launches;
    if (event.kernel < 0) continue;
    const RecordedKernel& each = recording.kernels[static_cast<std::size_t>(event.kernel)];
    if (each.kernel.kind == Kernel::Kind::memory) continue;
    flops += each.flops;
    by_precision[static_cast<std::size_t>(each.kernel.precision.value_or(Precision::fp32))] +=
        each.flops;
  }
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
void add_memory(const Recording& recording, Rehearsed& result) {
  result.memory = recording.memory;
  result.memory_limit_bytes = script_memory_bytes(result.cluster, recording.ranks);
  result.fits = static_cast<double>(recording.memory.peak_allocated_bytes +
                                    recording.memory.refused_bytes) <= result.memory_limit_bytes;
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
  result.recorded_on = recording.machine;
  result.cluster = cluster_for(recording, request, load);
  const Topology topology(result.cluster);
  result.step = replay_recording(recording, price(recording, topology),
                                 result.cluster.machine.gpu.kernels.overlap_slowdown,
                                 {.factor = request.host_factor});
  result.step_time_s = to_seconds(result.step.step_time).value;
  add_flops(recording, result);
  add_collectives(recording, result);
  add_memory(recording, result);
  add_price(result);
  return result;
}

}  // namespace meshwright::session
