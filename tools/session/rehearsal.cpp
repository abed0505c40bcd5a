#include "tools/session/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/core/error.h"
#include "models/job/recorded_job.h"
#include "sim/cost/cost.h"
#include "sim/framework/framework_memory.h"
#include "sim/planner/clusters.h"
#include "sim/predict/goodput.h"
#include "sim/rehearsal/likely_step.h"

namespace meshwright::session {

namespace {

Job job_for(const Recording& recording, const RehearsalRequest& request,
            const MachineLoader& load) {
  std::vector<std::string> set;
  if (!request.machine.empty()) set.push_back("cluster.machine=" + request.machine);
  if (request.count) set.push_back(fmt::format("cluster.count={}", *request.count));
  set.insert(set.end(), request.set.begin(), request.set.end());
  return read_recorded_job(request.file, recording.machine, set,
                           [&](const std::string& name) { return facts_of(load(name)); });
}

int count_for(const Recording& recording, const Job& job, int gpus) {
  if (!job.cluster.counts.empty()) return job.cluster.counts.front();
  const bool recorded = job.cluster.machines.front() == recording.machine;
  return recorded ? recording.ranks / recording.per_host : (recording.ranks + gpus - 1) / gpus;
}

Cluster cluster_for(const Recording& recording, const Job& job, const MachineLoader& load) {
  const Machine machine = load(job.cluster.machines.front());
  const int gpus = std::max(1, machine.gpus);
  Cluster cluster = make_cluster(job.cluster, machine, count_for(recording, job, gpus));
  if (job.cluster.processes_per_host == 0)
    cluster.processes_per_host = recording.ranks / cluster.hosts;
  if (cluster.ranks() != recording.ranks || cluster.processes_per_host > gpus)
    throw InputError(fmt::format(
        "the {} ranks of the recording cannot be on {} x {} in equal numbers, up to {} on a host; "
        "use another count or machine, or rehearse the script with other ranks",
        recording.ranks, cluster.hosts, cluster.machine.name, gpus));
  return cluster;
}

// Returns the model FLOPs of a kernel. Attention's backward has five matmuls of equal size, one of
// which recomputes the scores and does not count.
double model_flops(const RecordedEvent& event, const RecordedKernel& each) {
  if (event.recomputed) return 0;
  const bool scores_again = each.kernel.kind == Kernel::Kind::attention && each.kernel.backward;
  return each.flops * (scores_again ? 0.8 : 1);
}

struct Flops {
  double of_model = 0;
  std::array<double, precision_count> all{};  // indexed by Precision
};

void add_flops_of(const Recording& recording, Flops& to) {
  for (const RecordedEvent& event : recording.events) {
    if (event.kernel < 0) continue;
    const RecordedKernel& each = recording.kernels[static_cast<std::size_t>(event.kernel)];
    if (each.kernel.kind == Kernel::Kind::memory) continue;
    to.of_model += model_flops(event, each);
    to.all[static_cast<std::size_t>(each.kernel.precision.value_or(Precision::fp32))] += each.flops;
  }
}

void add_flops(const Recording& recording, Rehearsed& result) {
  result.launches = std::ranges::count(recording.events, Recorded::kernel, &RecordedEvent::what);
  Flops flops;
  add_flops_of(recording, flops);
  for (const Recording& other : recording.others) add_flops_of(other, flops);
  const Gpu device = result.cluster.device();
  const auto most = static_cast<Precision>(std::ranges::max_element(flops.all) - flops.all.begin());
  Prediction& p = result.prediction;
  if (p.step_time_s <= 0) return;
  const double peak = device.peak(executed_precision(device, most)).value;
  const double rank_seconds = p.step_time_s * static_cast<double>(1 + recording.others.size());
  p.model_flops_per_s_per_gpu = flops.of_model / rank_seconds;
  p.mfu = p.model_flops_per_s_per_gpu / peak;
  result.hfu = std::accumulate(flops.all.begin(), flops.all.end(), 0.0) / rank_seconds / peak;
}

// Sets the job's batch to that of all ranks, and the rates at which it is trained. Samples without
// tokens have length 1.
void add_batch(const Recording& recording, Rehearsed& result) {
  const RecordedBatch batch = recording.batch.value_or(RecordedBatch{});
  result.has_batch = batch.samples > 0;
  result.has_tokens = batch.tokens > 0;
  if (result.job.objective.tokens && !result.has_tokens)
    throw InputError(
        result.job.file +
        ": objective.tokens: the recording does not say how many tokens a step has; use "
        "training.steps");
  Training& training = result.job.plan.training;
  training.global_batch = std::max<std::int64_t>(1, batch.samples * batch.replicas);
  training.sequence_length = 1;
  if (result.has_tokens) {
    const bool equal = batch.tokens % batch.samples == 0;
    training.global_batch = (equal ? batch.samples : batch.tokens) * batch.replicas;
    training.sequence_length = static_cast<int>(equal ? batch.tokens / batch.samples : 1);
  }
  Prediction& p = result.prediction;
  if (p.step_time_s <= 0) return;
  p.sequences_per_s = static_cast<double>(batch.samples * batch.replicas) / p.step_time_s;
  p.tokens_per_s = static_cast<double>(batch.tokens * batch.replicas) / p.step_time_s;
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

// Sets memory, and whether it fits. Allocated memory decides, not reserved memory, because the
// allocator frees the blocks that it only caches before a request fails.
void add_memory(Rehearsed& result) {
  Prediction& p = result.prediction;
  const auto needed = [](const RehearsedRank& rank) {
    return rank.memory.peak_allocated_bytes + rank.memory.refused_bytes;
  };
  result.memory = std::ranges::max(result.ranks, {}, needed).memory;
  p.memory_limit_bytes = script_memory_bytes(result.cluster, result.cluster.ranks());
  p.fits = std::ranges::all_of(result.ranks, [&](const RehearsedRank& rank) {
    return static_cast<double>(needed(rank)) <= p.memory_limit_bytes;
  });
  p.peak_memory_bytes =
      result.memory.peak_reserved_bytes +
      static_cast<std::int64_t>(result.cluster.device().memory_bytes - p.memory_limit_bytes);
}

void add_price(Rehearsed& result) {
  Prediction& p = result.prediction;
  const PriceChoice& choice = result.job.objective.price;
  if (const Price* price = find_price(result.cluster.machine.prices, choice)) p.price = *price;
  p.usd_per_hour = usd_per_hour(result.cluster, choice);
  if (!p.usd_per_hour) return;
  result.usd_per_step = *p.usd_per_hour / 3600 * p.step_time_s;
  if (p.tokens_per_s > 0) p.usd_per_million_tokens = *p.usd_per_hour / 3600 / p.tokens_per_s * 1e6;
}

void add_steps(const Recording& recording, const RehearsalRequest& request, Rehearsed& result) {
  const Topology topology(result.cluster);
  std::vector<PricedRecording> priced{{&recording, price(recording, topology)}};
  for (const Recording& other : recording.others)
    priced.push_back({&other, price(other, topology)});
  const Machine& machine = result.cluster.machine;
  const ReplayedRanks replayed =
      replay_recordings(priced, machine.gpu.kernels.overlap_slowdown,
                        {request.host_factor, machine.host.driver_launch_us * 1e-6},
                        request.keeps_spans ? &result.spans : nullptr);
  result.ranks_meet = replayed.meet;
  for (std::size_t i = 0; i < priced.size(); ++i)
    result.ranks.push_back(
        {priced[i].recording->rank, replayed.steps[i], priced[i].recording->memory});
  result.step = replayed.steps.front();
}

void add_times(Rehearsed& result) {
  const auto& slowest =
      std::ranges::max(result.ranks, {}, [](const auto& rank) { return rank.step.step_time; });
  Prediction& p = result.prediction;
  p.step_time = slowest.step.step_time;
  p.step_time_s = to_seconds(p.step_time).value;
  p.exposed_communication_s = to_seconds(result.step.exposed_communication).value;
  const LikelyStep likely = likely_step(slowest.step);
  p.interval = StepInterval{likely.low_s, likely.high_s, likely.rows};
}

}  // namespace

double script_memory_bytes(const Cluster& cluster, int ranks) {
  return cluster.machine.framework
             ? framework_limit_bytes(cluster.machine, MemoryOf::pytorch, ranks > 1)
             : cluster.device().memory_bytes - library_bytes(cluster);
}

Rehearsed rehearsed(const Recording& recording, const Job& job, const Cluster& cluster,
                    const RehearsalRequest& request) {
  Rehearsed result;
  result.script = recording.script;
  result.recorded_on = recording.machine;
  result.job = job;
  result.cluster = cluster;
  result.notes = recording.notes;
  add_steps(recording, request, result);
  add_times(result);
  Prediction& p = result.prediction;
  p.calibration = cluster.machine.calibration;
  p.instructions = static_cast<std::int64_t>(recording.events.size());
  add_flops(recording, result);
  add_batch(recording, result);
  add_collectives(recording, result);
  add_memory(result);
  add_price(result);
  result.checkpoint_bytes =
      static_cast<double>(recording.state_bytes > 0 ? recording.state_bytes
                                                    : recording.memory.allocated_before_step_bytes);
  p.goodput = goodput_of(result.checkpoint_bytes, cluster,
                         job.checkpoint ? job.checkpoint->every_steps : 0, p.step_time_s);
  return result;
}

Rehearsed rehearsed(const Recording& recording, const RehearsalRequest& request,
                    const MachineLoader& load) {
  const Job job = job_for(recording, request, load);
  Rehearsed result = rehearsed(recording, job, cluster_for(recording, job, load), request);
  result.run = whole_run(result.job, result.job.plan.training, result.checkpoint_bytes,
                         result.cluster, result.prediction);
  return result;
}

}  // namespace meshwright::session
