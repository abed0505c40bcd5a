// Profiles what one unit of a model (its embedding, a block, its head) costs one rank for one
// micro-batch. Programs of the same model with one and with two blocks are measured, so that the
// numbers are those of the simulator and yet cheap. Blocks are alike, so these tell the whole
// model.
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
  std::int64_t bytes = 0;  // of the whole buffer, as far as it is sent
  ExpertChoices choices;   // of an exchange of experts that sends tokens once
  auto operator<=>(const Collective&) const = default;
};

struct UnitProfile {
  bool is_block = false;        // stands for as many blocks as the model has
  std::int64_t parameters = 0;  // elements that the rank holds, unsharded; shared ones counted once
  std::int64_t expert_parameters = 0;  // of experts that an expert group shares
  // Work of one micro-batch.
  struct Pass {
    double compute_s = 0;
    std::map<Collective, int> collectives;  // of the tensor and the expert group: how many
    // Communication of the context group that overlaps with compute: how often its ring passes on
    // how many bytes, and its collectives.
    std::map<std::int64_t, int> shifts;
    std::map<Collective, int> context_collectives;
  };
  Pass forward, recompute, backward;
  // The steps of a body in order, on its streams, for plans in which these collectives overlap with
  // compute.
  struct Step {
    Phase phase = Phase::forward;
    bool computes = false;  // else it is a collective
    double compute_s = 0;
    Collective collective;
    int waits_for = -1;  // a collective's place in the list
  };
  std::vector<Step> forward_steps, backward_steps;
  double weight_gradient_s = 0;  // part of backward that no earlier stage waits for
};

// Bytes that a stage saves from forward to backward of a micro-batch, and the workspace of the
// largest body that works on a micro-batch.
struct StageBytes {
  std::int64_t kept = 0;
  std::int64_t task = 0, largest_task = 0;  // all of it; the largest buffer in it
};

struct ModelProfile {
  std::vector<UnitProfile> units;  // in order; a block once
  int layers = 1;                  // blocks that each block of `units` stands for
  bool shares_layers = false;      // only the first of them has parameters
  StageBytes one_block;            // of a stage with all units, one block among them
};

// Bytes that all units save for one micro-batch if they are on one stage.
struct KeptBytes {
  std::int64_t block = 0;                   // one block more
  std::int64_t other = 0;                   // the other units
  std::int64_t task = 0, largest_task = 0;  // as above
};

// Bytes of the three stages of a pipeline with one block on each stage.
struct StageProfile {
  StageBytes first, middle, last;
  std::int64_t middle_block_kept = 0;  // by one block more of a stage in the middle
  int units_before = 0;                // all blocks
};

// Bytes of each message that a stage in the middle sends to the next stage and to the previous one.
struct Messages {
  std::vector<std::int64_t> onwards, back;
};

// Properties that all blocks of a profile share: their matmuls are in bf16 (`first_layers_in_bf16`,
// `last_layers_in_bf16`), or they have no experts although other blocks of the model have some.
struct BlockKind {
  bool in_bf16 = false, dense = false;
  bool operator==(const BlockKind&) const = default;
};

// The kinds of blocks that a model has under a plan. The first kind also has the units that are not
// blocks.
struct BlockKinds {
  std::vector<BlockKind> kinds;
  std::vector<std::size_t> of_block;
};
BlockKinds kinds_of_blocks(const Model& model, const Training& training);

// Returns the factor by which compute takes longer than in the profiles, because ranks wait for the
// slowest. Sharded parameters may let more ranks wait for each other, but this is left out, because
// one profile serves several degrees of sharding.
double straggling_of(const Candidate& candidate, const Cluster& cluster);

// Profiles of one model on one machine, with all blocks alike. They are the same on any number of
// hosts, because ranks that wait for the slowest are left out (straggling_of()). Each is made when
// it is first asked for, once per (tensor, context, its exchange and heads, micro_batch, recompute,
// offload, sequence_parallel, expert, whether experts lie over tensor groups, compiler, whether
// backwards are split, tensor_chunks). References stay valid, and several threads may ask. If the
// plan leaves choices to the compiler (models/compiler), times and costs are those of a plan with
// enough memory, bytes those of the plan that needs least.
class Profiles {
 public:
  Profiles(const Model& model, const Plan& base, const Cluster& cluster, BlockKind kind = {});
  // Returns the profile of a candidate, with `recompute` in place of its own recomputation.
  const ModelProfile& of(const Candidate& candidate, Recompute recompute);
  // Returns, for each unit, the work that a split backward defers on any stage but the first.
  const std::vector<UnitProfile::Pass>& deferred(const Candidate& candidate, Recompute recompute);
  const KeptBytes& kept(const Candidate& candidate, Recompute recompute);
  // Returns the cost of every unit of the whole model under the candidate. By these costs the
  // partitioner divides the chain into stages.
  const std::vector<double>& costs(const Candidate& candidate);
  // Returns the bytes of the stages of a chain of at least three blocks of one kind, each with its
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
  const Model alike_;  // all blocks of the kind
  Memo<Key, ModelProfile> profiles_;
  Memo<Key, std::vector<UnitProfile::Pass>> deferred_;
  // The key also holds the share of recomputed blocks, and whether weights are rounded repeatedly.
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
  std::size_t count() const;  // of the profiles that were measured

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
  // Returns the profiles for all clusters that differ from `cluster` at most in their number of
  // hosts, and in the ranks on a host if these have GPUs of their own.
  std::shared_ptr<ModelProfiles> of(const Model& model, const Plan& base, const Cluster& cluster);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<ModelProfiles>> known_;
};

}  // namespace meshwright::sim
