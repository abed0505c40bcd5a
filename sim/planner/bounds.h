// Bounds from below the time and memory that a candidate needs, and estimates them, without
// building its Programs. Most candidates are pruned by these bounds. What the simulator predicts is
// never lower than a bound.
//
// Time of 1f1b and gpipe, for any partition into stages. A stage that holds the units [a, b) of the
// chain cannot begin before the first micro-batch has passed the units before a, which takes F. Its
// last gradient must pass them back, which takes B (without what they recompute and without the
// weight gradients of one unit per stage, which no other stage waits for). During that time the
// stage reduces its gradients: r is the time of the reductions that only the last backward task, of
// length b, can hide, and f that of the reductions that no task hides. The optimizers, which take
// t, wait for the norm of all gradients. With c the stage's own time per micro-batch and m
// micro-batches:
//
//   step >= F + m*c + max(B, r - b, f) + t
//
// The bound is the smallest step for which some cut into stages obeys that. For schedules with
// several chunks per stage it is the mean over stages of m*c + f + t.
//
// A looser version of this bound needs no cut: let x_s be the work of stage s, rho the least share
// of a unit's work that others wait for, W the sum of all x_s, and p the number of stages. Each
// stage s obeys
//
//   step >= rho * (x_0 + ... + x_(s-1)) + m * x_s
//
// The weighted mean of these inequalities, with weights that grow by 1 / (1 - rho/m) from stage to
// stage, has the same coefficient for all x_s: step >= rho * W / (1 - (1 - rho/m)^p). `sweep`
// (sweep.h) computes it for all plans.
//
// If the partition is known (BoundMaker::knows_partition), the bounds of time and of memory are
// those of its stages.
//
// Memory of any partition. With n_s blocks on stage s that take w_s bytes each (parameters, their
// states, activations of the micro-batches in flight), max n_s*w_s >= layers / sum(1/w_s). If
// blocks differ, let a be the bytes of a block's parameters and states, q_s the number of
// micro-batches in flight on stage s, and K the bytes that all blocks save for one micro-batch: max
// >= (a * layers / q_0 + K) / sum(1/q_s).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "models/compiler/schedule/schedule.h"
#include "models/compiler/schedule/slot_pools.h"
#include "sim/planner/network_times.h"
#include "sim/planner/per_parameter.h"
#include "sim/planner/pipeline_bound.h"
#include "sim/planner/profile.h"

namespace meshwright::sim {

// Returns the type of the weights that take the fewest bytes: with LoRA that of the frozen weights,
// which may have 4 bits, and otherwise that in which the engine stores weights.
inline Dtype least_storage(const Training& t) {
  const Dtype storage = storage_of(t.precision);
  return t.lora ? base_type(*t.lora, storage) : storage;
}

// Returns the least bytes per element of gathered weights. `fp8_gathers` sends some of them in 8
// bits.
inline double gathered_bytes(const Training& t) {
  return mean_bytes_of(t.fp8_gathers ? Dtype::e4m3 : least_storage(t));
}

struct Bounds {
  double step_time_s = 0;  // the simulated step is never shorter
  double estimate_s = 0;   // the expected step; plans are simulated in its order
};

// Seconds that one unit takes for one micro-batch, with the collectives of its tensor and expert
// groups, except for `compute`.
struct UnitTimes {
  bool is_block = false;
  double forward = 0, recompute = 0, backward = 0;
  double compute = 0;  // seconds of compute of all phases, without collectives
  double context = 0;  // communication of its context group, which overlaps with compute
  HeldParameters parameters;
  double weight_gradient = 0;
  double last_collectives = 0;  // forward_last + backward_last
  // The longest collective of the forward and of the backward, which the next task may hide.
  double forward_last = 0, backward_last = 0;
  // Seconds of compute before the first collective of a forward and of a backward, or infinity if
  // there is none.
  double until_collective_forward = 0, until_collective_backward = 0;
  double work() const { return forward + recompute + backward; }
};

// Times of the units, with blocks that save their activations and with blocks that recompute. If
// the candidate recomputes all blocks or none, both are equal.
struct KindTimes {
  std::vector<UnitTimes> kept, repeated;
};

// Times of all units for one micro-batch.
struct Work {
  // One for each kind of blocks (profile.h); the first also has the other units.
  std::vector<KindTimes> kinds;
  double fraction = 1;  // share of the blocks that take the times in `repeated`
  const std::vector<UnitTimes>& units() const { return kinds.front().kept; }
  bool shares_layers = false;
  int layers = 1;
  double seconds = 0, compute = 0, context = 0, backward = 0;
  HeldParameters parameters;
  double forward() const { return seconds - backward; }
  // The least share of a unit's work that other stages wait for: forward and backward, or the
  // forward alone if backwards are split.
  double ramp_share = 0, split_ramp_share = 0;
  double weight_gradient = 0, last_collectives = 0;  // the largest value of any unit
  HeldParameters block_parameters;  // the mean of a block; 0 if blocks share their parameters
};

struct MemoryBounds {
  double least_bytes = 0;   // lower bound of the exact peak
  double likely_bytes = 0;  // the expected peak of the memory
};

// Sums over the chain of units. Entry u of the sums adds up the units before unit u, and the last
// entry adds up all units. Times are in seconds. `units` has an entry for each unit.
struct Chain {
  std::vector<double> work;      // work of one micro-batch
  std::vector<double> drain;     // seconds in which the last gradient passes the units back
  std::vector<double> backward;  // seconds of the backward of one micro-batch, with recomputation
  // Seconds of the communication of context groups, which overlaps with compute.
  std::vector<double> context;
  std::vector<HeldParameters> parameters;
  std::vector<const UnitTimes*> units;
  // Returns the seconds that the first micro-batch takes to reach `unit`.
  double fill(std::size_t unit) const { return work[unit] - backward[unit]; }
};

// Measurements of small models and of the network, which are slow to make. The bound makers of
// several threads share an object of this struct.
struct Measured {
  Measured(std::shared_ptr<ModelProfiles> of_model, const Cluster& cluster)
      : profiles(std::move(of_model)), network(cluster) {}
  std::shared_ptr<ModelProfiles> profiles;
  NetworkTimes network;
  // The key is the costs of the units and the number of virtual stages. The value is the first unit
  // of each virtual stage, followed by the number of units.
  Memo<std::pair<const std::vector<double>*, int>, std::vector<std::size_t>> partitions;
  // The key is schedule, stages, chunks and micro-batches. The value lists, for every stage, how
  // many micro-batches of each chunk are in flight at its fullest times (slot_pools.h).
  Memo<std::tuple<ScheduleKind, int, int, int>, std::vector<std::vector<InFlight>>> fullest;
};

class BoundMaker {
 public:
  // `profiles` are those of the model, the plan and the cluster. If they are null, new ones are
  // made.
  BoundMaker(const Model& model, const Plan& base, const Cluster& cluster,
             std::shared_ptr<ModelProfiles> profiles = nullptr);
  // Returns a bound maker for another thread, because each is for one thread only. It shares the
  // measurements of this one.
  BoundMaker for_another_thread() const { return {model_, base_, cluster_, measured_}; }
  MemoryBounds memory(const Candidate& candidate);
  Bounds time(const Candidate& candidate);
  // Returns bounds that hold for any partition into stages, even if the partition is known.
  // can_end_within() only says whether this lower bound is at most `seconds`, which is faster.
  Bounds time_of_any_partition(const Candidate& candidate);
  bool can_end_within(const Candidate& candidate, double seconds);
  // Returns a closer lower bound, in seconds, which is slower to find: the pipeline's tasks in
  // their order (pipeline_bound.h). Returns 0 if it is not known, say because the partition is not.
  double pipeline_time(const Candidate& candidate);
  // A cut is the first unit of each virtual stage, followed by the number of units. The functions
  // that take a cut return the bounds for that cut.
  using Cut = std::vector<std::size_t>;
  Bounds time_of_cut(const Candidate& candidate, const Cut& cut);
  double pipeline_time_of_cut(const Candidate& candidate, const Cut& cut);

  // Return parts of the bounds of time and memory. The returned references stay valid.
  const Work& work(const Candidate& candidate);
  const PerParameter& per_parameter(const Candidate& candidate);
  // Least bytes that are saved from the forward of a micro-batch to its backward, by all blocks and
  // by the other units. If only a share of the blocks is recomputed (a mixed plan), only the blocks
  // that are not recomputed count. In other plans both are 0 if activations are offloaded.
  struct Kept {
    double blocks = 0, others = 0;
  };
  Kept kept_bytes(const Candidate& candidate);
  int micro_batches(const Candidate& candidate) const;
  PipelineShape pipeline_shape(const Candidate& candidate) const;
  enum class Counted : std::uint8_t { all, no_gradients };
  ParameterBytes bytes_per_parameter(const Candidate& candidate,
                                     Counted counted = Counted::all) const;
  // Returns whether a plan with so many micro-batches has no gradients in its forward.
  bool drops_gradients(const Candidate& candidate, int micro_batches) const;
  // Returns whether gradients are reduced in every micro-batch.
  bool reduces_each(const Candidate& candidate) const;
  // Returns the least bytes of the buffers of weights and gradients that are gathered and reduced
  // unit by unit, per parameter of a block, on a stage that has a chunk of `blocks` blocks.
  ParameterBytes unit_buffer_bytes(const Candidate& candidate, int blocks) const;
  double fixed_bytes() const;  // memory of libraries on each device
  // Returns the least number of micro-batches in flight on `stage`.
  int in_flight(const Candidate& candidate, int stage) const;
  std::size_t profiles() const {  // number of profiles that were measured so far
    return measured_->profiles->count();
  }
  bool blocks_differ() const { return model_.has_decoder() || model_.is_fixed(); }

 private:
  BoundMaker(const Model& model, const Plan& base, const Cluster& cluster,
             std::shared_ptr<Measured> measured);
  // The ranks that hold the same parameters, either experts or all others. `all` is their group,
  // `shard` the group that shares one copy, and `replica` the group that holds the same shard.
  // `ranks` and `shards` are the sizes of `all` and `shard`.
  struct Sharers {
    GroupKind all, shard, replica;
    int ranks, shards;
  };
  static Sharers sharers(const Candidate& candidate, bool experts);
  double bytes_of_each(const Candidate& candidate, int shards, Counted counted) const;
  ParameterTimes gathers_of_frozen(const Candidate& candidate, const Sharers& sharers);
  ParameterTimes times_of_each(const Candidate& candidate, const Sharers& sharers);
  double all_gather_s(const Candidate& candidate, const Sharers& sharers);
  double collective_s(const Candidate& candidate, const Collective& collective);
  double longest_collective(const Candidate& candidate, const UnitProfile::Pass& pass);
  // `slowest` is the result of straggling_of() for the candidate.
  double pass_time(const Candidate& candidate, const UnitProfile::Pass& pass, double slowest);
  double beside_compute(const Candidate& candidate, const std::vector<UnitProfile::Step>& steps,
                        bool recomputes, double slowest);
  double context_time(const Candidate& candidate, const UnitProfile::Pass& pass);
  // Seconds of the messages of one micro-batch: on the stage whose outgoing messages take longest,
  // and on all stages together.
  struct MessageTimes {
    double slowest = 0, all = 0;
  };
  MessageTimes message_times(const Candidate& candidate);
  struct Sent {
    std::vector<double> onwards, back;  // seconds, by boundary between stages
    std::vector<bool> crosses;          // whether a boundary is between two hosts
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
  KeptBytes kept_beside_blocks(const Candidate& candidate);
  double single_stage_memory(const Candidate& candidate, bool likely);
  double any_partition_memory(const Candidate& candidate);
  MemoryBounds stage_memory(const Candidate& candidate);
  double shared_slot_bytes(const std::vector<InFlight>& time, const std::vector<double>& each);
  // Mean seconds of a stage, without filling and draining the pipeline.
  struct MeanTimes {
    // Seconds of compute with the exposed collectives, and with the communication too that the
    // first forward and the last backward cannot hide.
    double busy = 0, drained = 0;
    // Seconds of the communication that overlaps with compute: of context groups, and the longest
    // of all streams.
    double beside = 0, stream = 0;
    double least = 0;  // lower bound of the longest stage
  };
  MeanTimes mean_times(const Candidate& candidate);
  static bool depends_on_cut(const Candidate& candidate);
  bool some_cut_ends_within(const Candidate& candidate, double seconds);
  bool works_by_units(const Candidate& candidate) const;
  bool has_kinds() const { return measured_->profiles->kinds().size() > 1; }
  std::size_t kind_of(int block) const { return measured_->profiles->kind_of(block); }
  // Returns the times of block `block`, with recomputation if `repeats`. `unit` is the unit of the
  // profile that stands for it.
  const UnitTimes& block_of(const Work& work, std::size_t unit, int block, bool repeats) const;
  // Returns the bytes that the blocks save for one micro-batch. In a mixed plan, the blocks that
  // recompute count only if `likely`.
  double kept_by_blocks(const Candidate& candidate, bool likely);
  // Returns whether weights that are kept gathered for the backward are gathered once a step, and
  // not in every micro-batch.
  bool gathers_once(const Candidate& candidate) const;

  const Model& model_;
  const Plan& base_;
  mutable Plan asked_;  // `base_` with the choices of the candidate that was asked last
  const Cluster& cluster_;
  CostModel cost_;
  std::shared_ptr<Measured> measured_;
  Profiles& profiles_;  // profiles of the first kind of blocks
  NetworkTimes& network_;
  // The key is the profiles of blocks that save and of blocks that recompute, the share of the
  // latter, the strides of the tensor and context groups, and the axis of expert groups.
  std::map<
      std::tuple<const ModelProfile*, const ModelProfile*, double, int, int, NetworkTimes::Axis>,
      Work>
      works_;
  // The key is the axes of shards and of experts' shards, zero stage and compiler level, whether
  // gradients are reduced in every micro-batch, whether gathered parameters are kept for the
  // backward, and whether they are gathered once a step.
  std::map<std::tuple<NetworkTimes::Axis, NetworkTimes::Axis, int, CompilerLevel, bool, bool, bool>,
           PerParameter>
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
  PartsKey parts_of_;  // the key of parts_
  std::vector<PartTimes> parts_;
  std::tuple<ScheduleKind, int, int, int> orders_of_;
  std::vector<StageOrder> orders_;
  Chain chain_;  // the chain of the work `chain_of_`
  const Work* chain_of_ = nullptr;
  bool chain_splits_ = false;
  const Chain& chain(const Work& work, bool splits);
};

}  // namespace meshwright::sim
