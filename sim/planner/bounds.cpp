#include "sim/planner/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/core/index.h"
#include "models/graph/op_table.h"
#include "models/partition/partition.h"
#include "models/schedule/schedule.h"
#include "sim/planner/mixed_recompute.h"

namespace meshwright {

namespace {

// Rates are taken from a large transfer, where latency does not count, less what it still adds.
constexpr double large_transfer_bytes = 4.0 * (1LL << 30);
constexpr double latency_allowance = 0.98;

struct Stages {
  int count = 1;
  double micro_batches = 1;
  double after = 0, hidden_last = 0;
  double weight_gradient = 0, last_collectives = 0;
};

// Can the chain be cut into stages such that none needs more than `step` seconds? Taking as many
// units as a stage can is best: the constraints loosen with the units before it.
bool feasible(const Chain& sums, const Stages& stages, double step) {
  std::size_t begin = 0;
  const std::size_t units = sums.work.size() - 1;
  for (int stage = 0; stage < stages.count && begin < units; ++stage) {
    const double ramp = std::max(0.0, sums.ramp[begin] - stage * stages.weight_gradient);
    std::size_t end = begin;
    while (end < units) {
      const double held = sums.parameters[end + 1] - sums.parameters[begin];
      const double own =
          std::max(0.0, sums.work[end + 1] - sums.work[begin] - stages.last_collectives);
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
  return candidate.shard > 1 ? candidate.shard : candidate.replicas();
}

int BoundMaker::micro_batches(const Candidate& candidate) const {
  return static_cast<int>(base_.training.global_batch /
                          (std::int64_t{candidate.data} * candidate.micro_batch));
}

bool BoundMaker::reduces_each(const Candidate& candidate) const {
  return to_plan(candidate, base_).reduces_each_micro_batch();
}

bool BoundMaker::gathers_once(const Candidate& candidate) const {
  return to_plan(candidate, base_).gathers_once_a_step();
}

BoundMaker::Axis BoundMaker::axis(const Candidate& candidate, GroupKind group) const {
  const bool is_tensor = group == GroupKind::tensor;
  int stride = 1;
  const std::string_view order = order_of_axes(candidate.placement);
  for (std::size_t i = order.size(); i-- > 0;) {
    if (order[i] == (is_tensor ? 'T' : 'D')) break;
    stride *= order[i] == 'P'   ? candidate.pipeline
              : order[i] == 'T' ? candidate.tensor
                                : candidate.replicas();
  }
  if (is_tensor) return {group, stride, candidate.tensor, 1};
  return {group, stride, candidate.replicas(),
          group == GroupKind::context ? candidate.context : shards(candidate)};
}

// The groups with a rank on the hosts of the first group's ends: the others lie like them, and
// fewer groups are never slower.
const Groups& BoundMaker::groups(const Candidate& candidate, const Axis& axis) {
  Groups& known = groups_[axis];
  if (!known.empty()) return known;
  const Mesh mesh(to_plan(candidate, base_).degrees(), candidate.placement);
  const int per_host = cluster_.processes_per_host;
  const std::vector<int> first = mesh.group(axis.group, 0);
  const auto other = std::find_if(first.begin(), first.end(),
                                  [&](int rank) { return cluster_.host_of(rank) != 0; });
  std::vector<int> hosts = {0};
  if (other != first.end()) hosts.push_back(cluster_.host_of(*other));
  for (const int host : hosts)
    for (int rank = host * per_host; rank < (host + 1) * per_host; ++rank) {
      std::vector<int> members = mesh.group(axis.group, rank);
      if (std::find(known.begin(), known.end(), members) == known.end())
        known.push_back(std::move(members));
    }
  return known;
}

double BoundMaker::group_time(const Candidate& candidate, GroupKind group, CollectiveKind kind,
                              double bytes) {
  const Axis lies = axis(candidate, group);
  const auto [known, is_new] = times_.try_emplace({lies, kind, bytes}, 0.0);
  if (is_new)
    known->second = collective_time(topology_, kind, {bytes}, groups(candidate, lies)).value;
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
  const KernelConstants& constants = topology_.cluster().machine.gpu.kernels;
  const double traffic = constants.optimizer_traffic[static_cast<std::size_t>(level)];
  double seconds = 0;
  for (const Kernel& kernel : kernels) seconds += cost_.time(kernel, traffic).value;
  seconds *= straggling(constants, cluster_.ranks(), 1);
  return latency_allowance * seconds / static_cast<double>(many);
}

PerParameter BoundMaker::make_per_parameter(const Candidate& candidate) {
  const Training& t = base_.training;
  const Parallelism& p = base_.parallelism;
  const double weight = static_cast<double>(bytes_of(storage_of(t.precision)));
  const double gradient = static_cast<double>(bytes_of(t.gradient_reduce));
  PerParameter cost;
  double& optimizer = optimizer_s_[candidate.compiler];
  if (optimizer == 0) optimizer = optimizer_s_per_parameter(candidate.compiler);
  cost.after = optimizer / shards(candidate);
  if (candidate.replicas() == 1) return cost;
  if (candidate.expert > 1) return cost;  // most of what a rank holds is reduced over fewer ranks
  // Small parameters that are not sharded are communicated once a step: how many is not known here.
  if (candidate.zero_stage == 3 && p.persistence_threshold > 0) return cost;
  const bool each = reduces_each(candidate);
  double& of_reductions = each                  ? cost.reduce_each
                          : p.overlap_gradients ? cost.hidden_last
                                                : cost.finish;
  double gather = 0, reduce = 0;
  if (candidate.zero_stage == 0) {
    of_reductions += gradient * per_byte(candidate, GroupKind::rdp, CollectiveKind::all_reduce);
  } else {
    reduce = gradient * per_byte(candidate, GroupKind::shard, CollectiveKind::reduce_scatter);
    gather = weight * per_byte(candidate, GroupKind::shard,
                               p.hierarchical_gather ? CollectiveKind::two_level_all_gather
                                                     : CollectiveKind::all_gather);
    of_reductions += reduce;
  }
  // The copies of what is sharded are summed once a step, after the last micro-batch where shards
  // are summed in every one.
  if (candidate.zero_stage > 0 && shards(candidate) < candidate.replicas())
    (each ? cost.finish : of_reductions) +=
        gradient / shards(candidate) *
        per_byte(candidate, GroupKind::replica, CollectiveKind::all_reduce);
  cost.each_batch = cost.reduce_each;
  if (candidate.zero_stage == 3 && candidate.keeps_gathered)
    (gathers_once(candidate) ? cost.first_batch : cost.each_batch) += gather;
  else if (candidate.zero_stage == 3)
    cost.each_batch += 2 * gather;  // before the forward, and again before the backward
  else  // updated weights are gathered beside the optimizer step of the next bucket
    cost.after = std::max(cost.after, gather);
  cost.after += cost.finish;
  return cost;
}

const PerParameter& BoundMaker::per_parameter(const Candidate& candidate) {
  const std::tuple key{axis(candidate, GroupKind::shard),
                       candidate.expert,
                       candidate.zero_stage,
                       candidate.compiler,
                       reduces_each(candidate),
                       candidate.keeps_gathered,
                       gathers_once(candidate)};
  auto known = per_parameter_.find(key);
  if (known == per_parameter_.end())
    known = per_parameter_.emplace(key, make_per_parameter(candidate)).first;
  return known->second;
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
  for (const auto& [what, count] : pass.collectives)
    seconds += count * group_time(candidate, GroupKind::tensor, what.first,
                                  static_cast<double>(what.second));
  return seconds;
}

// When the compute stream has done all steps, as the tensor group's collectives go on beside it,
// each after the compute step before it. Both streams may begin at once: nothing begins earlier.
double BoundMaker::beside_compute(const Candidate& candidate,
                                  const std::vector<UnitProfile::Step>& steps, bool recomputes) {
  double compute = 0, communication = 0;
  std::vector<double> ends;
  for (const UnitProfile::Step& step : steps) {
    const bool counts = recomputes || step.phase != Phase::recompute;
    if (step.computes) {
      if (step.waits_for >= 0) compute = std::max(compute, ends[at(step.waits_for)]);
      if (counts) compute += step.compute_s;
      ends.push_back(compute);
      continue;
    }
    communication = std::max(communication, compute);
    if (counts)
      communication += group_time(candidate, GroupKind::tensor, step.collective.first,
                                  static_cast<double>(step.collective.second));
    ends.push_back(communication);
  }
  return compute;
}

// Every member of the context groups sends to the next one of its group, all at once.
double BoundMaker::shift_time(const Candidate& candidate, double bytes) {
  const Axis lies = axis(candidate, GroupKind::context);
  const auto [known, is_new] = shift_times_.try_emplace({lies, bytes}, 0.0);
  if (!is_new) return known->second;
  std::vector<std::pair<int, int>> pairs;
  for (const std::vector<int>& group : groups(candidate, lies))
    for (std::size_t i = 0; i < group.size(); ++i)
      pairs.emplace_back(group[i], group[(i + 1) % group.size()]);
  return known->second = transfer_time(topology_, {bytes}, pairs).value;
}

// What stage `from` sends to the next one, while all ranks of its host that have it do.
std::vector<std::pair<int, int>> BoundMaker::senders(const Mesh& mesh, int from) const {
  const int host = cluster_.host_of(mesh.rank({from, 0, 0}));
  std::vector<std::pair<int, int>> pairs;
  for (int local = 0; local < cluster_.processes_per_host; ++local) {
    const int rank = host * cluster_.processes_per_host + local;
    Coordinates place = mesh.coordinates(rank);
    if (place.pipeline != from) continue;
    ++place.pipeline;
    pairs.emplace_back(rank, mesh.rank(place));
  }
  return pairs;
}

// Of one message over each boundary between stages; with the number of those before that lie alike
// on their hosts, and so take the same time.
const std::vector<BoundMaker::Boundary>& BoundMaker::boundaries(const Candidate& candidate,
                                                                std::int64_t bytes) {
  const Mesh mesh(to_plan(candidate, base_).degrees(), candidate.placement);
  const auto [known, is_new] = boundaries_.try_emplace(
      {candidate.pipeline, mesh.rank({1, 0, 0}), static_cast<double>(bytes)});
  std::map<std::vector<std::pair<int, int>>, Boundary> alike;
  for (int from = 0; is_new && from + 1 < candidate.pipeline; ++from) {
    const std::vector<std::pair<int, int>> pairs = senders(mesh, from);
    const int first = cluster_.host_of(pairs[0].first) * cluster_.processes_per_host;
    std::vector<std::pair<int, int>> from_first = pairs;
    for (auto& [sender, receiver] : from_first) sender -= first, receiver -= first;
    const auto [found, unknown] = alike.try_emplace(std::move(from_first));
    if (unknown)
      found->second = {cluster_.host_of(pairs[0].first) != cluster_.host_of(pairs[0].second),
                       transfer_time(topology_, {static_cast<double>(bytes)}, pairs).value};
    known->second.push_back(found->second);
  }
  return known->second;
}

BoundMaker::Sent BoundMaker::sent(const Candidate& candidate) {
  const StageProfile& profile = profiles_.stages(candidate, candidate.recompute);
  const auto between = static_cast<std::size_t>(candidate.pipeline - 1);
  Sent sent{std::vector<double>(between), std::vector<double>(between), std::vector<bool>(between)};
  const auto add = [&](const std::vector<std::int64_t>& messages, std::vector<double>& times) {
    for (const std::int64_t bytes : messages) {
      const std::vector<Boundary>& own = boundaries(candidate, bytes);
      for (std::size_t b = 0; b < between; ++b)
        times[b] += own[b].seconds, sent.crosses[b] = own[b].crosses_hosts;
    }
  };
  add(profile.messages, sent.onwards);
  add(profile.gradient_messages, sent.back);
  return sent;
}

// A stage in the middle sends to both sides on one way out, unless one of them is on another host
// and one on its own.
BoundMaker::MessageTimes BoundMaker::message_times(const Candidate& candidate) {
  const auto between = static_cast<std::size_t>(candidate.pipeline - 1);
  const auto [onwards, back, crosses] = sent(candidate);
  MessageTimes times;
  for (std::size_t b = 0; b < between; ++b) {
    times.all += onwards[b] + back[b];
    if (b == 0) continue;
    times.slowest =
        std::max(times.slowest, crosses[b] == crosses[b - 1] ? onwards[b] + back[b - 1]
                                                             : std::max(onwards[b], back[b - 1]));
  }
  if (between == 1) times.slowest = times.all;
  return times;
}

double BoundMaker::context_time(const Candidate& candidate, const UnitProfile::Pass& pass) {
  double seconds = 0;
  for (const auto& [bytes, count] : pass.shifts)
    seconds += count * shift_time(candidate, static_cast<double>(bytes));
  for (const auto& [what, count] : pass.context_collectives)
    seconds += count * group_time(candidate, GroupKind::context, what.first,
                                  static_cast<double>(what.second));
  return seconds;
}

namespace {

double until_collective(const std::vector<UnitProfile::Step>& steps) {
  double computed = 0;
  for (const UnitProfile::Step& step : steps) {
    if (!step.computes) return computed;
    computed += step.compute_s;
  }
  return std::numeric_limits<double>::infinity();  // none: nothing of it waits for others
}

}  // namespace

std::vector<UnitTimes> BoundMaker::unit_times(const Candidate& candidate,
                                              const ModelProfile& profile) {
  const bool beside = base_.parallelism.overlap_tensor && candidate.tensor > 1 &&
                      cluster_.machine.concurrent_streams;
  std::vector<UnitTimes> times;
  for (const UnitProfile& unit : profile.units) {
    UnitTimes own;
    own.is_block = unit.is_block;
    if (beside) {
      own.forward = beside_compute(candidate, unit.forward_steps, true);
      own.backward = beside_compute(candidate, unit.backward_steps, false);
      own.recompute = beside_compute(candidate, unit.backward_steps, true) - own.backward;
    } else {
      own.forward = pass_time(candidate, unit.forward);
      own.recompute = pass_time(candidate, unit.recompute);
      own.backward = pass_time(candidate, unit.backward);
    }
    own.compute = unit.forward.compute_s + unit.recompute.compute_s + unit.backward.compute_s;
    own.context = context_time(candidate, unit.forward) + context_time(candidate, unit.recompute) +
                  context_time(candidate, unit.backward);
    own.parameters = static_cast<double>(unit.parameters);
    own.weight_gradient = unit.weight_gradient_s;
    own.forward_last = longest_collective(candidate, unit.forward);
    own.backward_last = longest_collective(candidate, unit.backward);
    own.last_collectives = own.forward_last + own.backward_last;
    own.until_collective_forward = until_collective(unit.forward_steps);
    own.until_collective_backward = until_collective(unit.backward_steps);
    times.push_back(own);
  }
  return times;
}

Work BoundMaker::make_work(const Candidate& candidate, const ModelProfile& kept,
                           const ModelProfile& repeated) {
  Work work;
  work.kept = unit_times(candidate, kept);
  work.repeated = &kept == &repeated ? work.kept : unit_times(candidate, repeated);
  work.fraction = candidate.recompute == Recompute::none ? 1 : candidate.recompute_fraction;
  work.shares_layers = kept.shares_layers;
  work.layers = kept.layers;
  const int again = repeated_blocks(work.layers, work.fraction);
  work.ramp_share = work.split_ramp_share = 1;
  const auto add = [&](const UnitTimes& unit, int count) {
    if (count == 0 || unit.work() <= 0) return;
    work.seconds += count * unit.work();
    work.compute += count * unit.compute;
    work.context += count * unit.context;
    work.backward += count * (unit.recompute + unit.backward);
    work.ramp_share = std::min(work.ramp_share, (unit.forward + unit.backward) / unit.work());
    work.split_ramp_share = std::min(work.split_ramp_share, unit.forward / unit.work());
    work.weight_gradient = std::max(work.weight_gradient, unit.weight_gradient);
    work.last_collectives = std::max(work.last_collectives, unit.last_collectives);
  };
  for (std::size_t unit = 0; unit < work.kept.size(); ++unit) {
    if (!work.kept[unit].is_block) {
      add(work.repeated[unit], 1);
      continue;
    }
    add(work.kept[unit], work.layers - again);
    add(work.repeated[unit], again);
  }
  work.parameters = static_cast<double>(kept.parameters);
  work.block_parameters = static_cast<double>(kept.block_parameters);
  return work;
}

// What is moved away costs no less time, and leaves an unknown part in memory.
const Work& BoundMaker::work(const Candidate& asked) {
  Candidate candidate = asked;
  candidate.offload = Offload::none;
  const bool mixed = is_mixed(candidate);
  const ModelProfile& repeated = profiles_.of(candidate, candidate.recompute);
  const ModelProfile& kept = mixed ? profiles_.of(candidate, Recompute::none) : repeated;
  const double fraction = mixed ? candidate.recompute_fraction : 1;
  const std::tuple key{&kept, &repeated, fraction, axis(candidate, GroupKind::tensor).stride,
                       candidate.context > 1 ? axis(candidate, GroupKind::context).stride : 1};
  auto known = works_.find(key);
  if (known == works_.end())
    known = works_.emplace(key, make_work(candidate, kept, repeated)).first;
  return known->second;
}

// Unit after unit, a block as often as the model has it.
const Chain& BoundMaker::chain(const Work& work, bool splits) {
  if (chain_of_ == &work && chain_splits_ == splits) return chain_;
  chain_of_ = &work;
  chain_splits_ = splits;
  Chain& sums = chain_;
  for (std::vector<double>* sum :
       {&sums.work, &sums.ramp, &sums.backward, &sums.context, &sums.parameters})
    sum->assign(1, 0.0);
  sums.units.clear();
  const auto add = [&](const UnitTimes& unit, bool has_parameters) {
    sums.work.push_back(sums.work.back() + unit.work());
    // Where backwards are split, weight gradients fill what would be a ramp.
    sums.ramp.push_back(sums.ramp.back() + unit.forward + (splits ? 0 : unit.backward));
    sums.backward.push_back(sums.backward.back() + unit.recompute + unit.backward);
    sums.context.push_back(sums.context.back() + unit.context);
    sums.parameters.push_back(sums.parameters.back() + (has_parameters ? unit.parameters : 0));
    sums.units.push_back(&unit);
  };
  int block = 0;
  for (std::size_t unit = 0; unit < work.kept.size(); ++unit) {
    if (!work.kept[unit].is_block) {
      add(work.repeated[unit], true);
      continue;
    }
    for (int i = 0; i < work.layers; ++i, ++block)
      add(is_repeated(block, work.fraction) ? work.repeated[unit] : work.kept[unit],
          i == 0 || !work.shares_layers);
  }
  return sums;
}

Bounds BoundMaker::time(const Candidate& candidate) {
  const Work& all = work(candidate);
  const PerParameter& cost = per_parameter(candidate);
  if (!knows_partition(candidate)) return time_of_any_partition(candidate, all, cost);
  return time_of_partition(candidate, all, cost);
}

Bounds BoundMaker::time_of_any_partition(const Candidate& candidate, const Work& all,
                                         const PerParameter& cost) {
  const bool splits = schedule_info(candidate.schedule).splits_backwards;
  const double stages = candidate.pipeline, batches = micro_batches(candidate);
  const double held = all.parameters;
  const double stream = std::max(cost.in_stream(batches) * held, batches * all.context) / stages;
  const double hidden = stages * candidate.virtual_stages * all.last_collectives;
  const double busy = batches * std::max(0.0, all.seconds - hidden) + cost.after * held;
  const double drained = busy + cost.at_the_ends(held, all.forward(), all.backward);
  // Probably exposed.
  const double beside = batches * all.context / stages;
  if (schedule_info(candidate.schedule).most_chunks > 1) {
    // Reductions of one chunk hide behind the backward tasks of all others: not in the bound.
    const double ramp = (stages - 1) / candidate.virtual_stages * all.seconds / stages;
    return {std::max(busy / stages, stream), std::max(drained / stages + ramp, stream) + beside};
  }
  // Reductions of a split backward hide behind weight gradients of other micro-batches too.
  const double mean = (splits ? busy : drained) / stages;
  if (candidate.pipeline == 1) return {std::max(mean, stream), std::max(mean, stream) + beside};
  const Stages cut{candidate.pipeline,  batches,
                   cost.after,          splits ? 0 : cost.hidden_last,
                   all.weight_gradient, all.last_collectives};
  const Chain& sums = chain(all, splits);
  double low = mean, high = busy + cost.hidden_last * held + all.seconds;
  while (high - low > 1e-3 * low) {
    const double middle = (low + high) / 2;
    (feasible(sums, cut, middle) ? high : low) = middle;
  }
  return {std::max(low, stream), std::max(high, stream) + beside};
}

// The longest stage. What collectives the next task may hide is not in the bound.
Bounds BoundMaker::time_of_partition(const Candidate& candidate, const Work& all,
                                     const PerParameter& cost) {
  const bool splits = schedule_info(candidate.schedule).splits_backwards;
  const bool interleaves = schedule_info(candidate.schedule).most_chunks > 1;
  const std::vector<std::size_t>& begins = partition(candidate);
  const Chain& sums = chain(all, splits);
  const double batches = micro_batches(candidate);
  const double hidden = candidate.virtual_stages * all.last_collectives;
  const double interleaved_ramp =
      (candidate.pipeline - 1.0) / candidate.virtual_stages * all.seconds / candidate.pipeline;
  // Where the slowest messages go, the others wait.
  const MessageTimes messages = message_times(candidate);
  const double sent = candidate.virtual_stages * messages.slowest;
  // Chunks wait for each other's messages all the time, whole stages while the pipeline fills.
  const double exposed = interleaves ? batches * sent : candidate.virtual_stages * messages.all;
  const StageLayout layout = candidate.stage_layout();
  Bounds bounds;
  if (candidate.pipeline > 2) bounds.step_time_s = batches * sent;
  for (int stage = 0; stage < candidate.pipeline; ++stage) {
    double own = 0, held = 0, backward = 0, context = 0;
    for (int chunk = 0; chunk < candidate.virtual_stages; ++chunk) {
      const auto part = static_cast<std::size_t>(layout.virtual_stage(stage, chunk));
      own += sums.work[begins[part + 1]] - sums.work[begins[part]];
      held += sums.parameters[begins[part + 1]] - sums.parameters[begins[part]];
      backward += sums.backward[begins[part + 1]] - sums.backward[begins[part]];
      context += sums.context[begins[part + 1]] - sums.context[begins[part]];
    }
    // A stage begins and ends with its first chunk.
    const double ramp = sums.ramp[begins[stage]];
    // Units are gathered before the first forward, while it comes from the stages before.
    const double gathered = cost.first_batch * held - (own - backward);
    const double reduced = cost.hidden_last * held - backward;
    const double least =
        std::max({0.0, ramp - stage * all.weight_gradient, splits || interleaves ? 0 : gathered}) +
        batches * std::max(0.0, own - hidden) + cost.after * held +
        (splits || interleaves ? 0 : std::max(0.0, reduced));
    const double stream = std::max(cost.in_stream(batches) * held, batches * context);
    const double likely = std::max({ramp, interleaves ? interleaved_ramp : 0, gathered}) +
                          batches * (own + context) + exposed + cost.after * held +
                          std::max(0.0, reduced);
    bounds.step_time_s = std::max({bounds.step_time_s, least, stream});
    bounds.estimate_s = std::max({bounds.estimate_s, likely, stream});
  }
  bounds.estimate_s = std::max(bounds.estimate_s, bounds.step_time_s);
  return bounds;
}

}  // namespace meshwright
