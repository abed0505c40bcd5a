// Measures what one unit of a model (its embedding, a block, its head) costs one rank for one
// micro-batch. Programs of the same model with one to four blocks are lowered and priced, so that
// the numbers are those of the simulator and yet cheap to find. Blocks of one kind are alike, so
// that one stands for all.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/collectives/deduplicated.h"
#include "sim/collectives/select.h"
#include "sim/cost/cost.h"
#include "sim/planner/memo.h"
#include "sim/planner/space.h"

namespace meshwright::sim {

struct Collective {
  GroupKind group = GroupKind::none;
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t bytes = 0;  // bytes of the whole buffer that are sent
  ExpertChoices choices;   // of an all-to-all of experts that sends a token once to a host
  auto operator<=>(const Collective&) const = default;
};

struct UnitProfile {
  bool is_block = false;  // it stands for all blocks of its stack
  // Unsharded elements on a rank; each belongs to the first unit that uses it.
  std::int64_t parameters = 0;
  std::int64_t expert_parameters = 0;  // elements of experts that an expert group divides
  // Work of one phase of one micro-batch.
  struct Pass {
    double compute_s = 0;
    std::map<Collective, int> collectives;  // of the tensor and expert groups: their number
    // Communication of the context group that overlaps with compute: how many times its ring passes
    // on a number of bytes, and its collectives with their numbers.
    std::map<std::int64_t, int> shifts;
    std::map<Collective, int> context_collectives;
  };
  Pass forward, recompute, backward;
  // The steps of a forward and of a backward body in order, for plans in which the collectives
  // overlap with compute.
  struct Step {
    Phase phase = Phase::forward;
    bool computes = false;  // if not, the step is `collective`
    double compute_s = 0;
    Collective collective;
    int waits_for = -1;  // index of the collective in the list that it waits for; -1: none
  };
  std::vector<Step> forward_steps, backward_steps;
  double weight_gradient_s = 0;  // seconds of weight gradients, which no earlier stage waits for
};

// Bytes that a stage saves from the forward to the backward of a micro-batch (for Megatron without
// the outputs of experts that it does not keep), and the temporary memory of the body that needs
// most, apart from that of the step's end.
struct StageBytes {
  std::int64_t kept = 0;
  std::int64_t task = 0, largest_task = 0;  // all of the temporary memory; the largest buffer in it
};

struct ModelProfile {
  std::vector<UnitProfile> units;  // in order; the blocks of a stack as one unit
  int layers = 1;                  // number of blocks that each block of `units` stands for
  bool shares_layers = false;      // whether only the first block has parameters
  StageBytes one_block;            // of a stage with all units, with one block
};

// Bytes for one micro-batch if all units are on one stage.
struct KeptBytes {
  std::int64_t block = 0;                   // bytes saved by each block
  std::int64_t other = 0;                   // bytes saved by the units that are not blocks
  std::int64_t task = 0, largest_task = 0;  // temporary memory, as in StageBytes
};

// Bytes of the stages of a pipeline with three stages and one block on each.
struct StageProfile {
  StageBytes first, middle, last;
  std::int64_t middle_block_kept = 0;  // bytes saved by each further block of a stage in the middle
  int units_before = 0;                // number of units before the first block
};

// Bytes of each message that a stage in the middle sends to the next stage and to the previous one.
struct Messages {
  std::vector<std::int64_t> onwards, back;
};

// Properties that all blocks of a profile share. `in_bf16`: their matmuls are in bf16
// (`first_layers_in_bf16`, `last_layers_in_bf16`). `dense`: they have no experts although the model
// has some.
struct BlockKind {
  bool in_bf16 = false, dense = false;
  bool operator==(const BlockKind&) const = default;
};

// The kinds of blocks that a model has under a plan, and the index of the kind of each block. The
// first kind also has the units that are not blocks. It may have no block.
struct BlockKinds {
  std::vector<BlockKind> kinds;
  std::vector<std::size_t> of_block;
};
BlockKinds kinds_of_blocks(const Model& model, const Training& training);

// Returns the factor by which compute takes longer than in the profiles, because ranks wait for the
// slowest. Sharded parameters may make more ranks wait for each other, but this is left out,
// because one profile serves several degrees of sharding.
double straggling_of(const Candidate& candidate, const Cluster& cluster);

// Profiles of one model on one machine, with blocks of one kind. They are the same on any number of
// hosts, because the time in which ranks wait for the slowest is left out (straggling_of()). A
// profile is made when it is first asked for, once for each combination of tensor, context, its
// exchange and heads, micro_batch, recompute, offload of activations, sequence_parallel, expert,
// whether experts are divided over tensor groups, compiler, whether backwards are split, and
// tensor_chunks. References stay valid, and several threads may ask. If the plan leaves choices to
// the compiler (models/compiler), times and costs are those of a plan with enough memory, and bytes
// those of the plan that needs least.
class Profiles {
 public:
  Profiles(const Model& model, const Plan& base, const Cluster& cluster, BlockKind kind = {});
  // Returns the profile of a candidate, with `recompute` in place of its own recomputation.
  const ModelProfile& of(const Candidate& candidate, Recompute recompute);
  // Returns, for each unit, the work that a split backward defers on a stage that is not the first
  // one. The units before the blocks are measured on the first stage, which defers more.
  const std::vector<UnitProfile::Pass>& deferred(const Candidate& candidate, Recompute recompute);
  const KeptBytes& kept(const Candidate& candidate, Recompute recompute);
  // Returns the cost, in seconds, of every unit of the whole model under the candidate. By these
  // costs the partitioner divides the chain into stages.
  const std::vector<double>& costs(const Candidate& candidate);
  // Returns the bytes of the stages of a chain of three or more blocks of one kind, each with its
  // own parameters.
  const StageProfile& stages(const Candidate& candidate, Recompute recompute);
  // Returns the bytes of the messages between the stages of a chain as in stages().
  const Messages& messages(const Candidate& candidate);
  std::size_t count() const { return profiles_.size() + kept_.size() + stages_.size(); }

 private:
  using Key = std::tuple<int, int, ContextExchange, int, int, Recompute, Offload, bool, int, bool,
                         CompilerLevel, bool, int>;
  static Key key_of(const Candidate& candidate, Recompute recompute);
  Plan plan_of(const Candidate& candidate, Recompute recompute) const;
  Plan fastest_of(const Candidate& candidate, Recompute recompute) const;
  Plan smallest_of(const Candidate& candidate, Recompute recompute) const;
  ModelProfile measure(const Plan& plan) const;
  std::vector<UnitProfile::Pass> measure_deferred(const Plan& plan) const;
  std::vector<double> measure_costs(const Candidate& candidate) const;
  KeptBytes measure_kept(const StageBytes& one, const Plan& plan) const;
  StageProfile measure_stages(const Plan& plan) const;
  Messages measure_messages(const Plan& plan) const;

  const Model& model_;
  const Plan& base_;
  const Cluster& cluster_;
  const BlockKind kind_;
  const Model alike_;  // the model with all blocks of kind_
  Memo<Key, ModelProfile> profiles_;
  Memo<Key, std::vector<UnitProfile::Pass>> deferred_;
  // The key also holds the share of recomputed blocks, and whether quantized weights are sharded by
  // ZeRO 3, so that they are quantized repeatedly.
  Memo<std::tuple<Key, double, bool>, std::vector<double>> costs_;
  Memo<Key, KeptBytes> kept_;
  Memo<Key, StageProfile> stages_;
  Memo<Key, Messages> messages_;
};

// The profiles of each kind of blocks of a model.
class ModelProfiles {
 public:
  ModelProfiles(const Model& model, const Plan& base, const Cluster& cluster);
  bool are_of(const Model& model, const Plan& base, const Cluster& cluster) const;
  const std::vector<std::unique_ptr<Profiles>>& kinds() const { return kinds_; }
  std::size_t kind_of(int block) const { return blocks_.of_block[block]; }
  std::size_t count() const;  // number of profiles measured so far, of all kinds

 private:
  const Model model_;
  const Plan base_;
  const Cluster cluster_;
  const BlockKinds blocks_;
  std::vector<std::unique_ptr<Profiles>> kinds_;
};

// Shares profiles among the searches of one question, because measuring them takes about half of a
// search's time. Machines of one name must be equal in all of these searches. Several threads may
// ask.
class SharedProfiles {
 public:
  // Returns the profiles for `model` and `base` on the machine of `cluster`. They serve all
  // clusters of this machine with any number of hosts and, if ranks have GPUs of their own, any
  // number of ranks per host.
  std::shared_ptr<ModelProfiles> of(const Model& model, const Plan& base, const Cluster& cluster);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<ModelProfiles>> known_;
};

}  // namespace meshwright::sim
