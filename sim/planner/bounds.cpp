#include "sim/planner/bounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/schedule/schedule.h"

namespace meshwright {

namespace {

// Rates are taken from a large transfer, where latency does not count, less what it still adds.
constexpr double large_transfer_bytes = 4.0 * (1LL << 30);
constexpr double latency_allowance = 0.98;

struct Stages {
  int count = 1;
  double micro_batches = 1;
  double after = 0, hidden_last = 0;
};

// Can the chain be cut into stages such that none needs more than `step` seconds? Taking as many
// units as a stage can is best: the constraints loosen with the units before it.
bool feasible(const Chain& sums, const Stages& stages, double step) {
  std::size_t begin = 0;
  const std::size_t units = sums.work.size() - 1;
  for (int stage = 0; stage < stages.count && begin < units; ++stage) {
    const double ramp = std::max(0.0, sums.ramp[begin] - stage * sums.weight_gradient_s);
    std::size_t end = begin;
    while (end < units) {
      const double held = sums.parameters[end + 1] - sums.parameters[begin];
      const double own =
          std::max(0.0, sums.work[end + 1] - sums.work[begin] - sums.last_collectives_s);
      const double busy = ramp + stages.micro_batches * own + stages.after * held;
      const double reduced =
          busy - (sums.backward[end + 1] - sums.backward[begin]) + stages.hidden_last * held;
      if (std::max(busy, reduced) > step) break;
      ++end;
    }
    if (end == begin) return false;
    begin = end;
  }
  return begin == units;
}

std::vector<double> sums_before(std::size_t count) { return std::vector<double>(count + 1, 0.0); }

}  // namespace

BoundMaker::BoundMaker(const Model& model, const Plan& base, const Cluster& cluster)
    : model_(model),
      base_(base),
      cluster_(cluster),
      topology_(cluster),
      cost_(cluster, base.training),
      profiles_(model, base, cluster) {}

int BoundMaker::shards(const Candidate& candidate) const {
  if (candidate.zero_stage == 0) return 1;
  const Parallelism& p = base_.parallelism;
  return p.shard > 1 ? p.shard : candidate.data * p.context;
}

int BoundMaker::micro_batches(const Candidate& candidate) const {
  return static_cast<int>(base_.training.global_batch /
                          (std::int64_t{candidate.data} * candidate.micro_batch));
}

double BoundMaker::memory(const Candidate& candidate) {
  const ModelProfile& profile = profiles_.of(candidate);
  const Training& t = base_.training;
  const double storage = static_cast<double>(bytes_of(storage_of(t.precision)));
  const double moments = t.optimizer == OptimizerKind::sgd ? 1 : 2;
  const double share = 1.0 / shards(candidate);
  const int zero = candidate.zero_stage;
  const double per_parameter =
      storage * (zero >= 3 ? share : 1) +
      static_cast<double>(bytes_of(t.gradient_reduce)) * (zero >= 2 ? share : 1) +
      (4 * moments + (storage < 4 ? 4 : 0)) * (zero >= 1 ? share : 1);
  const LibraryOverheads& library = cluster_.machine.overheads;
  const double fixed = library.context_bytes + library.workspace_bytes +
                       (cluster_.ranks() > 1 ? library.communicator_bytes : 0);
  const int count = micro_batches(candidate), stages = candidate.pipeline;
  const int bound = base_.parallelism.active_microbatches;
  const auto in_flight = [&](int stage) {
    const int own = candidate.schedule == ScheduleKind::gpipe ? count : stages - stage;
    return std::min({count, own, bound > 0 ? bound : own});
  };
  const double kept = static_cast<double>(profile.block_kept_bytes);
  // Under ZeRO 2 and 3 the compute stream waits more often, so buffers live shorter.
  if (stages == 1)
    return fixed + per_parameter * static_cast<double>(profile.parameters()) +
           in_flight(0) * (model_.layers * kept + static_cast<double>(profile.other_kept_bytes)) +
           static_cast<double>(zero >= 2 ? profile.largest_task_bytes : profile.task_bytes);
  if (model_.has_decoder()) return fixed;  // blocks of two kinds: left to the exact plan
  double block_parameters = 0;
  for (const UnitProfile& unit : profile.units)
    if (unit.is_block) block_parameters = static_cast<double>(unit.parameters);
  double shares = 0;
  for (int stage = 0; stage < stages; ++stage)
    shares += 1 / (per_parameter * block_parameters + in_flight(stage) * kept);
  return fixed + model_.layers / shares;
}

double BoundMaker::group_time(const Candidate& candidate, GroupKind group, CollectiveKind kind,
                              double bytes) {
  Groups& groups = groups_[{candidate.pipeline, candidate.tensor, candidate.zero_stage, group}];
  if (groups.empty())
    groups = Mesh(to_plan(candidate, base_).degrees(), base_.parallelism.placement).groups(group);
  const auto [known, is_new] =
      times_.try_emplace({groups.front(), groups.size(), kind, bytes}, 0.0);
  if (is_new) known->second = collective_time(topology_, kind, {bytes}, groups).value;
  return known->second;
}

double BoundMaker::per_byte(const Candidate& candidate, GroupKind group, CollectiveKind kind) {
  return latency_allowance * group_time(candidate, group, kind, large_transfer_bytes) /
         large_transfer_bytes;
}

double BoundMaker::optimizer_s_per_parameter(CompilerLevel level) const {
  const Training& t = base_.training;
  constexpr std::int64_t many = 1'000'000'000;
  std::vector<Kernel> kernels;
  append_optimizer_kernels(
      {many, t.optimizer == OptimizerKind::sgd ? 1 : 2, storage_of(t.precision), t.gradient_reduce,
       t.optimizer == OptimizerKind::lamb},
      level, kernels);
  double seconds = 0;
  for (const Kernel& kernel : kernels) seconds += cost_.time(kernel).value;
  return latency_allowance * seconds / static_cast<double>(many);
}

BoundMaker::PerParameter BoundMaker::per_parameter(const Candidate& candidate) {
  const Training& t = base_.training;
  const Parallelism& p = base_.parallelism;
  const double weight = static_cast<double>(bytes_of(storage_of(t.precision)));
  const double gradient = static_cast<double>(bytes_of(t.gradient_reduce));
  PerParameter cost;
  cost.after = optimizer_s_per_parameter(candidate.compiler) / shards(candidate);
  if (candidate.data * p.context == 1) return cost;
  if (candidate.expert > 1) return cost;  // most of what a rank holds is reduced over fewer ranks
  // Small parameters that are not sharded are communicated once a step: how many is not known here.
  if (candidate.zero_stage == 3 && p.persistence_threshold > 0) return cost;
  if (candidate.zero_stage == 0) {
    const double reduce =
        gradient * per_byte(candidate, GroupKind::rdp, CollectiveKind::all_reduce);
    (p.overlap_gradients ? cost.hidden_last : cost.after) += reduce;
    return cost;
  }
  const double reduce =
      gradient * per_byte(candidate, GroupKind::shard, CollectiveKind::reduce_scatter);
  const double gather = weight * per_byte(candidate, GroupKind::shard, CollectiveKind::all_gather);
  if (candidate.zero_stage == 3)
    cost.each_batch += 2 * gather;  // before the forward, and again before the backward
  else  // updated weights are gathered beside the optimizer step of the next bucket
    cost.after = std::max(cost.after, gather);
  if (candidate.zero_stage > 1)
    cost.each_batch += reduce;
  else
    (p.overlap_gradients ? cost.hidden_last : cost.after) += reduce;
  return cost;
}

double BoundMaker::longest_collective(const Candidate& candidate, const UnitProfile::Pass& pass) {
  double longest = 0;
  for (const auto& [what, count] : pass.collectives)
    longest = std::max(longest, group_time(candidate, GroupKind::tensor, what.first,
                                           static_cast<double>(what.second)));
  return longest;
}

double BoundMaker::pass_time(const Candidate& candidate, const UnitProfile::Pass& pass) {
  double seconds = pass.compute_s;
  if (base_.parallelism.overlap_tensor) return seconds;
  for (const auto& [what, count] : pass.collectives)
    seconds += count * group_time(candidate, GroupKind::tensor, what.first,
                                  static_cast<double>(what.second));
  return seconds;
}

Chain BoundMaker::chain(const Candidate& candidate, const ModelProfile& profile) {
  const std::size_t units = profile.units.size();
  Chain sums{sums_before(units), sums_before(units), sums_before(units), sums_before(units)};
  const bool splits = schedule_info(candidate.schedule).splits_backwards;
  double forward = 0, recompute = 0, backward = 0;
  for (std::size_t u = 0; u < units; ++u) {
    const UnitProfile& unit = profile.units[u];
    if (u == 0 || !unit.is_block || !profile.units[u - 1].is_block) {  // blocks are alike
      forward = pass_time(candidate, unit.forward);
      recompute = pass_time(candidate, unit.recompute);
      backward = pass_time(candidate, unit.backward);
    }
    sums.work[u + 1] = sums.work[u] + forward + recompute + backward;
    // Where backwards are split, weight gradients fill what would be a ramp.
    sums.ramp[u + 1] = sums.ramp[u] + forward + (splits ? 0 : backward);
    sums.backward[u + 1] = sums.backward[u] + recompute + backward;
    sums.parameters[u + 1] = sums.parameters[u] + static_cast<double>(unit.parameters);
    sums.weight_gradient_s = std::max(sums.weight_gradient_s, unit.weight_gradient_s);
    sums.last_collectives_s =
        std::max(sums.last_collectives_s, longest_collective(candidate, unit.forward) +
                                              longest_collective(candidate, unit.backward));
  }
  return sums;
}

Bounds BoundMaker::time(const Candidate& candidate) {
  const Chain sums = chain(candidate, profiles_.of(candidate));
  const PerParameter cost = per_parameter(candidate);
  const double stages = candidate.pipeline, batches = micro_batches(candidate);
  const double work = sums.work.back(), held = sums.parameters.back();
  const double stream = (batches * cost.each_batch + cost.hidden_last) * held / stages;
  const double hidden = stages * candidate.virtual_stages * sums.last_collectives_s;
  const double busy = batches * std::max(0.0, work - hidden) + cost.after * held;
  const double reduced = busy - sums.backward.back() + cost.hidden_last * held;
  if (candidate.schedule == ScheduleKind::interleaved) {
    // Reductions of one chunk hide behind the backward tasks of all others: not in the bound.
    const double ramp = (stages - 1) / candidate.virtual_stages * work / stages;
    return {std::max(busy / stages, stream),
            std::max(std::max(busy, reduced) / stages + ramp, stream)};
  }
  // Reductions of a split backward hide behind weight gradients of other micro-batches too.
  const bool splits = schedule_info(candidate.schedule).splits_backwards;
  const double mean = (splits ? busy : std::max(busy, reduced)) / stages;
  if (candidate.pipeline == 1) return {std::max(mean, stream), std::max(mean, stream)};
  const Stages cut{candidate.pipeline, batches, cost.after, splits ? 0 : cost.hidden_last};
  double low = mean, high = busy + cost.hidden_last * held + work;
  while (high - low > 1e-3 * low) {
    const double middle = (low + high) / 2;
    (feasible(sums, cut, middle) ? high : low) = middle;
  }
  return {std::max(low, stream), std::max(high, stream)};
}

}  // namespace meshwright
