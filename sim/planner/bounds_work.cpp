// The part of BoundMaker that computes the times of units, of parameters and of the whole chain.
#include <algorithm>
#include <limits>

#include "models/compiler/schedule/schedule.h"
#include "models/program/graph/op_table.h"
#include "sim/planner/bounds.h"
#include "sim/planner/mixed_recompute.h"

namespace meshwright::sim {

namespace {

// Reduces the time of optimizer kernels a little, because the seconds per element include a share
// of the kernels' launches, and the bound must not exceed the simulated time.
constexpr double launch_allowance = 0.98;

HeldParameters held_of(std::int64_t parameters, std::int64_t of_experts) {
  return {static_cast<double>(parameters - of_experts), static_cast<double>(of_experts)};
}

}  // namespace

double BoundMaker::optimizer_s_per_parameter(CompilerLevel level) const {
  const Training& t = base_.training;
  constexpr std::int64_t many = 1'000'000'000;
  std::vector<Kernel> kernels;
  append_optimizer_kernels(
      {many, moments_of(t.optimizer), storage_of(t.precision), t.gradient_reduce, t.master_type(),
       t.moments, measures_parameters(t.optimizer), t.averages(),
       t.optimizer == OptimizerKind::adafactor},
      level, kernels);
  const KernelConstants& constants = cluster_.machine.gpu.kernels;
  const double traffic = constants.optimizer_traffic[static_cast<std::size_t>(level)];
  double seconds = 0;
  for (const Kernel& kernel : kernels) seconds += cost_.time(kernel, traffic).value;
  seconds *= straggling(constants, cluster_.ranks(), 1);
  return launch_allowance * seconds / static_cast<double>(many);
}

BoundMaker::Sharers BoundMaker::sharers(const Candidate& candidate, bool experts) {
  const Degrees degrees = candidate.degrees();
  if (!experts || !degrees.has_expert_groups())
    return {GroupKind::rdp, GroupKind::shard, GroupKind::replica, degrees.rdp(), degrees.shard};
  return {GroupKind::expert_rdp, GroupKind::expert_shard, GroupKind::expert_replica,
          degrees.expert_rdp(), degrees.expert_shard()};
}

double BoundMaker::all_gather_s(const Candidate& candidate, const Sharers& sharers) {
  return network_.per_byte(candidate, sharers.shard,
                           base_.parallelism.hierarchical_gather
                               ? CollectiveKind::two_level_all_gather
                               : CollectiveKind::all_gather);
}

// Returns the times of frozen weights. ZeRO stage 3 gathers them, and nothing else is done with
// them.
ParameterTimes BoundMaker::gathers_of_frozen(const Candidate& candidate, const Sharers& sharers) {
  ParameterTimes cost;
  if (candidate.zero_stage != 3 || sharers.ranks == 1 ||
      base_.parallelism.persistence_threshold > 0)
    return cost;
  const double gather = gathered_bytes(base_.training) * all_gather_s(candidate, sharers);
  if (candidate.keeps_gathered)
    (gathers_once(candidate) ? cost.first_batch : cost.each_batch) += gather;
  else
    // Before the forward; not every unit has a backward that gathers again.
    cost.each_batch += gather;
  return cost;
}

ParameterTimes BoundMaker::times_of_each(const Candidate& candidate, const Sharers& sharers) {
  const Training& t = base_.training;
  const Parallelism& p = base_.parallelism;
  const double storage = static_cast<double>(bytes_of(storage_of(t.precision)));
  const double gradient = static_cast<double>(bytes_of(t.gradient_reduce));
  if (t.lora) return gathers_of_frozen(candidate, sharers);
  ParameterTimes cost;
  double& optimizer = optimizer_s_[candidate.compiler];
  if (optimizer == 0) optimizer = optimizer_s_per_parameter(candidate.compiler);
  cost.optimizer = optimizer / sharers.shards;
  if (sharers.ranks == 1) return cost;
  // With ZeRO stage 3, parameters below the persistence threshold are not sharded, but communicated
  // once a step. Their number is not known here, so no communication is counted.
  if (candidate.zero_stage == 3 && p.persistence_threshold > 0) return cost;
  const bool each = reduces_each(candidate);
  double& of_reductions = each                  ? cost.reduce_each
                          : p.overlap_gradients ? cost.hidden_last
                                                : cost.finish;
  double gather = 0;
  if (candidate.zero_stage == 0) {
    of_reductions +=
        gradient * network_.per_byte(candidate, sharers.all, CollectiveKind::all_reduce);
  } else {
    const double weight = candidate.zero_stage == 3 ? gathered_bytes(t) : storage;
    gather = weight * all_gather_s(candidate, sharers);
    of_reductions +=
        gradient * network_.per_byte(candidate, sharers.shard, CollectiveKind::reduce_scatter);
  }
  // Copies of shards are summed once a step. If shards are reduced in every micro-batch, their
  // copies are summed after the last one.
  if (candidate.zero_stage > 0 && sharers.shards < sharers.ranks)
    (each ? cost.finish : of_reductions) +=
        gradient / sharers.shards *
        network_.per_byte(candidate, sharers.replica, CollectiveKind::all_reduce);
  cost.each_batch = cost.reduce_each;
  if (candidate.zero_stage == 3 && candidate.keeps_gathered)
    (gathers_once(candidate) ? cost.first_batch : cost.each_batch) += gather;
  else if (candidate.zero_stage == 3)
    cost.each_batch += 2 * gather;  // before the forward, and again before the backward
  else  // updated weights are gathered while the optimizer updates the next bucket
    cost.gather = gather;
  return cost;
}

const PerParameter& BoundMaker::per_parameter(const Candidate& candidate) {
  if (last_cost_ != nullptr && candidate == last_cost_of_) return *last_cost_;
  const std::tuple key{network_.axis(candidate, GroupKind::shard),
                       network_.axis(candidate, GroupKind::expert_shard),
                       candidate.zero_stage,
                       candidate.compiler,
                       reduces_each(candidate),
                       candidate.keeps_gathered,
                       gathers_once(candidate)};
  auto known = per_parameter_.find(key);
  if (known == per_parameter_.end())
    known = per_parameter_
                .emplace(key, PerParameter{times_of_each(candidate, sharers(candidate, false)),
                                           times_of_each(candidate, sharers(candidate, true))})
                .first;
  last_cost_of_ = candidate;
  last_cost_ = &known->second;
  return known->second;
}

double BoundMaker::collective_s(const Candidate& candidate, const Collective& collective) {
  if (collective.choices.experts > 0)
    return network_.deduplicated(candidate, collective.group, collective.choices,
                                 static_cast<double>(collective.bytes));
  return network_.collective(candidate, collective.group, collective.kind,
                             static_cast<double>(collective.bytes));
}

double BoundMaker::longest_collective(const Candidate& candidate, const UnitProfile::Pass& pass) {
  double longest = 0;
  for (const auto& [what, count] : pass.collectives)
    longest = std::max(longest, collective_s(candidate, what));
  return longest;
}

double BoundMaker::pass_time(const Candidate& candidate, const UnitProfile::Pass& pass,
                             double slowest) {
  double seconds = slowest * pass.compute_s;
  for (const auto& [what, count] : pass.collectives)
    seconds += count * collective_s(candidate, what);
  return seconds;
}

// Returns when the compute stream has done all steps, in seconds after the first one began.
// Collectives of tensor groups and of expert groups overlap with compute on a stream each, and
// begin no earlier than the compute step before them ends. Steps that recompute take no time unless
// `recomputes`. All streams begin at once, so no real stream begins earlier.
double BoundMaker::beside_compute(const Candidate& candidate,
                                  const std::vector<UnitProfile::Step>& steps, bool recomputes,
                                  double slowest) {
  double compute = 0, of_tensor = 0, of_experts = 0;
  std::vector<double> ends;
  for (const UnitProfile::Step& step : steps) {
    const bool counts = recomputes || step.phase != Phase::recompute;
    if (step.computes) {
      if (step.waits_for >= 0) compute = std::max(compute, ends[step.waits_for]);
      if (counts) compute += slowest * step.compute_s;
      ends.push_back(compute);
      continue;
    }
    double& communication = step.collective.group == GroupKind::expert ? of_experts : of_tensor;
    communication = std::max(communication, compute);
    if (counts) communication += collective_s(candidate, step.collective);
    ends.push_back(communication);
  }
  return compute;
}

double BoundMaker::context_time(const Candidate& candidate, const UnitProfile::Pass& pass) {
  double seconds = 0;
  for (const auto& [bytes, count] : pass.shifts)
    seconds += count * network_.shift(candidate, static_cast<double>(bytes));
  for (const auto& [what, count] : pass.context_collectives)
    seconds += count * collective_s(candidate, what);
  return seconds;
}

namespace {

double until_collective(const std::vector<UnitProfile::Step>& steps, double slowest) {
  double computed = 0;
  for (const UnitProfile::Step& step : steps) {
    if (!step.computes) return computed;
    computed += slowest * step.compute_s;
  }
  return std::numeric_limits<double>::infinity();  // there is no collective
}

}  // namespace

std::vector<UnitTimes> BoundMaker::unit_times(const Candidate& candidate,
                                              const ModelProfile& profile) {
  const bool beside =
      ((base_.parallelism.overlap_tensor && candidate.tensor > 1) || candidate.expert > 1) &&
      cluster_.machine.concurrent_streams;
  const double slowest = straggling_of(candidate, cluster_);
  std::vector<UnitTimes> times;
  for (const UnitProfile& unit : profile.units) {
    UnitTimes own;
    own.is_block = unit.is_block;
    if (beside) {
      own.forward = beside_compute(candidate, unit.forward_steps, true, slowest);
      own.backward = beside_compute(candidate, unit.backward_steps, false, slowest);
      own.recompute = beside_compute(candidate, unit.backward_steps, true, slowest) - own.backward;
    } else {
      own.forward = pass_time(candidate, unit.forward, slowest);
      own.recompute = pass_time(candidate, unit.recompute, slowest);
      own.backward = pass_time(candidate, unit.backward, slowest);
    }
    own.compute =
        slowest * (unit.forward.compute_s + unit.recompute.compute_s + unit.backward.compute_s);
    own.context = context_time(candidate, unit.forward) + context_time(candidate, unit.recompute) +
                  context_time(candidate, unit.backward);
    own.parameters = held_of(unit.parameters, unit.expert_parameters);
    own.weight_gradient = slowest * unit.weight_gradient_s;
    own.forward_last = longest_collective(candidate, unit.forward);
    own.backward_last = longest_collective(candidate, unit.backward);
    own.last_collectives = own.forward_last + own.backward_last;
    own.until_collective_forward = until_collective(unit.forward_steps, slowest);
    own.until_collective_backward = until_collective(unit.backward_steps, slowest);
    times.push_back(own);
  }
  return times;
}

KindTimes BoundMaker::kind_times(const Candidate& candidate, Profiles& profiles) {
  KindTimes times;
  times.repeated = unit_times(candidate, profiles.of(candidate, candidate.recompute));
  times.kept = is_mixed(candidate) ? unit_times(candidate, profiles.of(candidate, Recompute::none))
                                   : times.repeated;
  return times;
}

const UnitTimes& BoundMaker::block_of(const Work& work, std::size_t unit, int block,
                                      bool repeats) const {
  const KindTimes& kind = work.kinds[kind_of(block)];
  return (repeats ? kind.repeated : kind.kept)[unit];
}

Work BoundMaker::make_work(const Candidate& candidate) {
  Work work;
  for (const auto& profiles : measured_->profiles->kinds())
    work.kinds.push_back(kind_times(candidate, *profiles));
  work.fraction = candidate.recompute == Recompute::none ? 1 : candidate.recompute_fraction;
  work.shares_layers = model_.shares_layers();
  work.layers = model_.layers;
  work.ramp_share = work.split_ramp_share = 1;
  const auto add = [&](const UnitTimes& unit) {
    if (unit.work() <= 0) return;
    work.seconds += unit.work();
    work.compute += unit.compute;
    work.context += unit.context;
    work.backward += unit.recompute + unit.backward;
    work.ramp_share = std::min(work.ramp_share, (unit.forward + unit.backward) / unit.work());
    work.split_ramp_share = std::min(work.split_ramp_share, unit.forward / unit.work());
    work.weight_gradient = std::max(work.weight_gradient, unit.weight_gradient);
    work.last_collectives = std::max(work.last_collectives, unit.last_collectives);
  };
  for (std::size_t unit = 0; unit < work.units().size(); ++unit) {
    const UnitTimes& first = work.units()[unit];
    if (!first.is_block) {
      add(first);
      work.parameters = work.parameters + first.parameters;
      continue;
    }
    HeldParameters of_blocks;
    for (int block = 0; block < work.layers; ++block) {
      const UnitTimes& own = block_of(work, unit, block, is_repeated(block, work.fraction));
      add(own);
      if (block == 0 || !work.shares_layers) of_blocks = of_blocks + own.parameters;
    }
    work.parameters = work.parameters + of_blocks;
    if (!work.shares_layers) work.block_parameters = (1.0 / work.layers) * of_blocks;
  }
  return work;
}

// Returns the work of a candidate without its offloading. It is a lower bound, because offloading
// only adds time.
const Work& BoundMaker::work(const Candidate& asked) {
  if (last_work_ != nullptr && asked == last_work_of_) return *last_work_;
  Candidate candidate = asked;
  candidate.offload = Offload::none;
  const bool mixed = is_mixed(candidate);
  const ModelProfile& repeated = profiles_.of(candidate, candidate.recompute);
  const ModelProfile& kept = mixed ? profiles_.of(candidate, Recompute::none) : repeated;
  const double fraction = mixed ? candidate.recompute_fraction : 1;
  const std::tuple key{
      &kept,
      &repeated,
      fraction,
      network_.axis(candidate, GroupKind::tensor).stride,
      candidate.context > 1 ? network_.axis(candidate, GroupKind::context).stride : 1,
      candidate.expert > 1 ? network_.axis(candidate, GroupKind::expert) : NetworkTimes::Axis{}};
  auto known = works_.find(key);
  if (known == works_.end()) known = works_.emplace(key, make_work(candidate)).first;
  last_work_of_ = asked;
  last_work_ = &known->second;
  return known->second;
}

// Returns the sums over the chain, unit after unit, with every block of the model.
const Chain& BoundMaker::chain(const Work& work, bool splits) {
  if (chain_of_ == &work && chain_splits_ == splits) return chain_;
  chain_of_ = &work;
  chain_splits_ = splits;
  Chain& sums = chain_;
  for (std::vector<double>* sum : {&sums.work, &sums.drain, &sums.backward, &sums.context})
    sum->assign(1, 0.0);
  sums.parameters.assign(1, {});
  sums.units.clear();
  const auto add = [&](const UnitTimes& unit, bool has_parameters) {
    sums.work.push_back(sums.work.back() + unit.work());
    // If backwards are split, weight gradients fill the time in which the last gradient goes back,
    // so the bound omits this time.
    sums.drain.push_back(sums.drain.back() + (splits ? 0 : unit.backward));
    sums.backward.push_back(sums.backward.back() + unit.recompute + unit.backward);
    sums.context.push_back(sums.context.back() + unit.context);
    sums.parameters.push_back(sums.parameters.back() +
                              (has_parameters ? unit.parameters : HeldParameters{}));
    sums.units.push_back(&unit);
  };
  int block = 0;
  for (std::size_t unit = 0; unit < work.units().size(); ++unit) {
    if (!work.units()[unit].is_block) {
      add(work.units()[unit], true);
      continue;
    }
    for (int i = 0; i < work.layers; ++i, ++block)
      add(block_of(work, unit, i, is_repeated(block, work.fraction)),
          i == 0 || !work.shares_layers);
  }
  return sums;
}

}  // namespace meshwright::sim
