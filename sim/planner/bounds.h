// What a candidate needs at least, without building its Programs: most candidates are turned away
// by these. They are lower bounds of what the simulator says, whatever the partition.
//
// Time of 1f1b and gpipe. A stage that holds the units [a, b) of the chain cannot begin before the
// first micro-batch has passed the units before a, which takes F, and its last gradient must pass
// them back, which takes B (without what they recompute and without the weight gradients of one
// unit per stage, which nobody waits for). While it does, the stage reduces its gradients: those
// that only the last backward task, of length b, can hide, r, and those that none does, f. All
// gradients make the norm for which the optimizers wait, t. With c its own per micro-batch and m
// micro-batches: step >= F + m*c + max(B, r - b, f) + t. The bound is the smallest step for which
// some cut into stages obeys that. Interleaved: the mean over stages of the same without F and B.
//
// A looser bound of the same needs no cut: let x_s be the work of stage s, rho the least share of a
// unit's work that others wait for, W = sum x_s. Of step >= rho * (x_0 + ... + x_(s-1)) + m * x_s
// for all s, the mean with weights that grow by 1 / (1 - rho/m) from stage to stage has all x_s
// equally often: step >= rho * W / (1 - (1 - rho/m)^p). `sweep` (sweep.h) asks it of all plans.
//
// Where the partition is known (a chain cut by the costs of its units, blocks alike), both are
// those of its stages.
//
// Memory of any partition. With n_s blocks on stage s, of weight w_s each (parameters, their
// states, activations of the micro-batches in flight), max n_s*w_s >= layers / sum(1/w_s). Where
// blocks differ: with a the states of a block, q_s micro-batches in flight and K what all blocks
// keep of one of them, max >= (a * layers / q_0 + K) / sum(1/q_s).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "models/compiler/schedule/schedule.h"
#include "models/compiler/schedule/slot_pools.h"
#include "models/core/index.h"
#include "sim/planner/network_times.h"
#include "sim/planner/per_parameter.h"
#include "sim/planner/pipeline_bound.h"
#include "sim/planner/profile.h"

namespace meshwright {

// Of a parameter that is gathered for its product: what some may have.
inline double gathered_bytes(const Training& t) {
  return static_cast<double>(bytes_of(t.fp8_gathers ? Dtype::e4m3 : storage_of(t.precision)));
}

struct Bounds {
  double step_time_s = 0;  // the simulated step is never shorter
  double estimate_s = 0;   // what it probably is: the order in which plans are simulated
};

// One unit, one micro-batch, with the collectives of its tensor group.
struct UnitTimes {
  bool is_block = false;
  double forward = 0, recompute = 0, backward = 0;
  double compute = 0;  // without the collectives
  double context = 0;  // what its context group sends beside it
  HeldParameters parameters;
  double weight_gradient = 0;
  double last_collectives = 0;  // that the next task may hide: one of a forward, one of a backward
  double forward_last = 0, backward_last = 0;  // these
  // What is computed before the first collective of a forward, of a backward.
  double until_collective_forward = 0, until_collective_backward = 0;
  double work() const { return forward + recompute + backward; }
};

// Units whose blocks keep their activations, or do not.
struct KindTimes {
  std::vector<UnitTimes> kept, repeated;
};

// All units, one micro-batch.
struct Work {
  std::vector<KindTimes> kinds;  // of blocks (profile.h); the first has the other units
  double fraction = 1;           // of the blocks: `repeated`
  const std::vector<UnitTimes>& units() const { return kinds.front().kept; }
  bool shares_layers = false;
  int layers = 1;
  double seconds = 0, compute = 0, context = 0, backward = 0;
  HeldParameters parameters;
  double forward() const { return seconds - backward; }
  double ramp_share = 0, split_ramp_share = 0;  // least over the units; where backwards are split
  double weight_gradient = 0, last_collectives = 0;  // of the unit that has most
  HeldParameters block_parameters;                   // of one, their mean
};

struct MemoryBounds {
  double least_bytes = 0;   // the exact peak is never less
  double likely_bytes = 0;  // what it probably is
};

// Sums over the units before each unit, and over all.
struct Chain {
  std::vector<double> work;      // of one micro-batch
  std::vector<double> drain;     // its last gradient on its way back
  std::vector<double> backward;  // of one micro-batch, with what it recomputes
  std::vector<double> context;   // of one micro-batch, beside
  std::vector<HeldParameters> parameters;
  std::vector<const UnitTimes*> units;
  // What the first micro-batch takes to come here.
  double fill(std::size_t unit) const { return work[unit] - backward[unit]; }
};

// What is slow to find, for the bound makers of several threads.
struct Measured {
  Measured(const Model& model, const Plan& base, const Cluster& cluster)
      : blocks(kinds_of_blocks(model, base.training)), network(cluster) {
    for (const BlockKind kind : blocks.kinds)
      profiles.push_back(std::make_unique<Profiles>(model, base, cluster, kind));
  }
  BlockKinds blocks;
  std::vector<std::unique_ptr<Profiles>> profiles;  // of each kind of blocks
  NetworkTimes network;
  // Costs of the units, virtual stages: the first unit of each, and one more.
  Memo<std::pair<const std::vector<double>*, int>, std::vector<std::size_t>> partitions;
  // Schedule, stages, chunks, micro-batches: of every stage, what is in flight when it is fullest.
  Memo<std::tuple<ScheduleKind, int, int, int>, std::vector<std::vector<InFlight>>> fullest;
};

class BoundMaker {
 public:
  BoundMaker(const Model& model, const Plan& base, const Cluster& cluster);
  // Each is for one thread; this one shares what is measured.
  BoundMaker for_another_thread() const { return {model_, base_, cluster_, measured_}; }
  MemoryBounds memory(const Candidate& candidate);
  Bounds time(const Candidate& candidate);
  // Of any cut into stages, whether it is known or not; and, sooner found, whether it is above
  // `seconds`.
  Bounds time_of_any_partition(const Candidate& candidate);
  bool can_end_within(const Candidate& candidate, double seconds);
  // Closer, and slower to find: the pipeline's tasks in their order (pipeline_bound.h). 0 where the
  // stages are not known.
  double pipeline_time(const Candidate& candidate);
  // The same of one cut: the first unit of each virtual stage, and one more.
  using Cut = std::vector<std::size_t>;
  Bounds time_of_cut(const Candidate& candidate, const Cut& cut);
  double pipeline_time_of_cut(const Candidate& candidate, const Cut& cut);

  // The parts of both; what is returned stays where it is.
  const Work& work(const Candidate& candidate);
  const PerParameter& per_parameter(const Candidate& candidate);
  // From forward to backward, of all blocks and of the other units; none where it is moved away.
  struct Kept {
    double blocks = 0, others = 0;
  };
  Kept kept_bytes(const Candidate& candidate);
  int micro_batches(const Candidate& candidate) const;
  PipelineShape pipeline_shape(const Candidate& candidate) const;
  ParameterBytes bytes_per_parameter(const Candidate& candidate) const;
  bool reduces_each(const Candidate& candidate) const;  // gradients, in every micro-batch
  // Of what is gathered and reduced unit by unit, per parameter of a block, on a stage one of whose
  // chunks has so many.
  ParameterBytes unit_buffer_bytes(const Candidate& candidate, int blocks) const;
  double fixed_bytes() const;                                  // of libraries
  int in_flight(const Candidate& candidate, int stage) const;  // micro-batches, at least
  std::size_t profiles() const {                               // that had to be measured
    std::size_t count = 0;
    for (const auto& profiles : measured_->profiles) count += profiles->count();
    return count;
  }
  bool has_two_stacks() const { return model_.has_decoder(); }

 private:
  BoundMaker(const Model& model, const Plan& base, const Cluster& cluster,
             std::shared_ptr<Measured> measured);
  // The ranks that have the same of the parameters of a kind, and those that share one copy of it.
  struct Sharers {
    GroupKind all, shard, replica;
    int ranks, shards;
  };
  static Sharers sharers(const Candidate& candidate, bool experts);
  double bytes_of_each(const Candidate& candidate, int shards) const;
  ParameterTimes gathers_of_frozen(const Candidate& candidate, const Sharers& sharers);
  ParameterTimes times_of_each(const Candidate& candidate, const Sharers& sharers);
  double all_gather_s(const Candidate& candidate, const Sharers& sharers);
  double collective_s(const Candidate& candidate, const Collective& collective);
  double longest_collective(const Candidate& candidate, const UnitProfile::Pass& pass);
  double pass_time(const Candidate& candidate, const UnitProfile::Pass& pass);
  double beside_compute(const Candidate& candidate, const std::vector<UnitProfile::Step>& steps,
                        bool recomputes);
  double context_time(const Candidate& candidate, const UnitProfile::Pass& pass);
  // Of one micro-batch: what the stage with the slowest way out sends, and what all send.
  struct MessageTimes {
    double slowest = 0, all = 0;
  };
  MessageTimes message_times(const Candidate& candidate);
  struct Sent {
    std::vector<double> onwards, back;  // over each boundary
    std::vector<bool> crosses;          // hosts
  };
  Sent sent(const Candidate& candidate);
  const std::vector<PartTimes>& part_times(const Candidate& candidate, const Cut& cut);
  const std::vector<StageOrder>& orders(const Candidate& candidate);
  const std::vector<std::vector<InFlight>>& fullest(const Candidate& candidate);
  std::vector<UnitTimes> unit_times(const Candidate& candidate, const ModelProfile& profile);
  KindTimes kind_times(const Candidate& candidate, Profiles& profiles);
  Work make_work(const Candidate& candidate);
  double optimizer_s_per_parameter(CompilerLevel level) const;
  bool knows_partition(const Candidate& candidate) const;
  const Cut& partition(const Candidate& candidate);
  double single_stage_memory(const Candidate& candidate, bool likely);
  double any_partition_memory(const Candidate& candidate);
  MemoryBounds stage_memory(const Candidate& candidate);
  double shared_slot_bytes(const std::vector<InFlight>& time, const std::vector<double>& each);
  // Of the stages: without their filling and draining.
  struct MeanTimes {
    double busy = 0, drained = 0;   // with what the first forward and the last backward cannot hide
    double beside = 0, stream = 0;  // of context groups; of all communication beside compute
    double least = 0;               // of the longest stage
  };
  MeanTimes mean_times(const Candidate& candidate);
  static bool depends_on_cut(const Candidate& candidate);
  bool some_cut_ends_within(const Candidate& candidate, double seconds);
  bool works_by_units(const Candidate& candidate) const;
  bool has_kinds() const { return measured_->profiles.size() > 1; }
  std::size_t kind_of(int block) const { return measured_->blocks.of_block[at(block)]; }
  // `block` of a stack's; `repeats` its work.
  const UnitTimes& block_of(const Work& work, std::size_t unit, int block, bool repeats) const;
  // What the blocks keep from forward to backward; `likely`: those that repeat their work, too.
  double kept_by_blocks(const Candidate& candidate, bool likely);
  bool gathers_once(const Candidate& candidate) const;  // a step, what is kept gathered

  const Model& model_;
  const Plan& base_;
  mutable Plan asked_;  // the base with what a candidate chooses
  const Cluster& cluster_;
  CostModel cost_;
  std::shared_ptr<Measured> measured_;
  Profiles& profiles_;  // of the usual blocks
  NetworkTimes& network_;
  // Profiles of blocks that keep and that repeat, share of those, strides of tensor, context and
  // expert groups.
  std::map<std::tuple<const ModelProfile*, const ModelProfile*, double, int, int, int>, Work>
      works_;
  // Axis of the replicas, expert degree, zero stage, level; whether gradients are reduced in every
  // micro-batch, and whether parameters are kept gathered, for the step.
  std::map<std::tuple<NetworkTimes::Axis, int, int, CompilerLevel, bool, bool, bool>, PerParameter>
      per_parameter_;
  // The work and costs of the last candidate, because its bounds ask for them several times.
  Candidate last_work_of_, last_cost_of_;
  const Work* last_work_ = nullptr;
  const PerParameter* last_cost_ = nullptr;
  std::map<CompilerLevel, double> optimizer_s_;
  std::map<std::pair<const std::vector<InFlight>*, std::vector<double>>, double> slot_bytes_;
  struct PartsKey {
    const Work* work = nullptr;
    Cut cut;
    bool splits = false;
    const std::vector<UnitProfile::Pass>* deferred = nullptr;
    bool operator==(const PartsKey&) const = default;
  };
  PartsKey parts_of_;  // of parts_
  std::vector<PartTimes> parts_;
  std::tuple<ScheduleKind, int, int, int> orders_of_;
  std::vector<StageOrder> orders_;
  Chain chain_;  // of chain_of_
  const Work* chain_of_ = nullptr;
  bool chain_splits_ = false;
  const Chain& chain(const Work& work, bool splits);
};

}  // namespace meshwright
