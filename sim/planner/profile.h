// What one unit of a model (its embedding, a block, its head) costs one rank for one micro-batch:
// measured on Programs of the same model with one and with two blocks, so that the numbers are
// those of the simulator and yet cheap. Blocks are alike, so these tell the whole model.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "sim/collectives/select.h"
#include "sim/cost/cost.h"
#include "sim/planner/memo.h"
#include "sim/planner/space.h"

namespace meshwright {

struct Collective {
  GroupKind group = GroupKind::none;
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t bytes = 0;  // of the whole buffer
  auto operator<=>(const Collective&) const = default;
};

struct UnitProfile {
  bool is_block = false;        // stands for as many blocks as the model has
  std::int64_t parameters = 0;  // elements that the rank holds, unsharded; shared ones counted once
  std::int64_t expert_parameters = 0;  // of experts that an expert group shares
  // One micro-batch.
  struct Pass {
    double compute_s = 0;
    std::map<Collective, int> collectives;  // of the tensor and the expert group: how many
    // What the context group does beside: bytes that go around its ring, how often; collectives.
    std::map<std::int64_t, int> shifts;
    std::map<Collective, int> context_collectives;
  };
  Pass forward, recompute, backward;
  // Where these collectives go on beside compute: what a body does in turn, on its streams.
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

// What a stage keeps from forward to backward of a micro-batch, and the working space of its
// largest body.
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

// What all units keep, on one stage.
struct KeptBytes {
  std::int64_t block = 0;                   // one block more
  std::int64_t other = 0;                   // the other units
  std::int64_t task = 0, largest_task = 0;  // as above
};

// Stages of a pipeline with one block each, and what the partitioner goes by.
struct StageProfile {
  StageBytes first, middle, last;
  std::int64_t middle_block_kept = 0;  // by one block more of a stage in the middle
  int units_before = 0;                // all blocks
};

// Bytes that a stage in the middle sends, one by one: to the next stage, to the one before.
struct Messages {
  std::vector<std::int64_t> onwards, back;
};

// What all blocks of a profile are like: those whose products are in bf16
// (`first_layers_in_bf16`), and those without experts, of a model whose other blocks have some.
struct BlockKind {
  bool in_bf16 = false, dense = false;
  bool operator==(const BlockKind&) const = default;
};

// The kinds that a model has under a plan. The first has the units beside blocks.
struct BlockKinds {
  std::vector<BlockKind> kinds;
  std::vector<std::size_t> of_block;
};
BlockKinds kinds_of_blocks(const Model& model, const Training& training);

// Profiles of one model on one cluster, each made when it is first asked for, once per (tensor,
// context, its exchange, micro_batch, recompute, offload, sequence_parallel, expert, compiler,
// whether backwards are split, tensor_chunks), all blocks alike. What is returned stays where it
// is. Several threads may ask. Of what the plan leaves to the compiler (models/compiler), times and
// costs are those of a plan with memory enough, bytes those of the plan that takes least.
class Profiles {
 public:
  Profiles(const Model& model, const Plan& base, const Cluster& cluster, BlockKind kind = {});
  // With `recompute` instead of the candidate's.
  const ModelProfile& of(const Candidate& candidate, Recompute recompute);
  // What a split backward puts off, of each unit, on any stage but the first.
  const std::vector<UnitProfile::Pass>& deferred(const Candidate& candidate, Recompute recompute);
  const KeptBytes& kept(const Candidate& candidate, Recompute recompute);
  // What the partitioner goes by, of every unit of the model, each as the plan has it.
  const std::vector<double>& costs(const Candidate& candidate);
  // Of a chain of blocks of one kind, at least three, each with parameters of its own.
  const StageProfile& stages(const Candidate& candidate, Recompute recompute);
  // Between stages of such a chain.
  const Messages& messages(const Candidate& candidate);
  std::size_t count() const { return profiles_.size() + kept_.size() + stages_.size(); }

 private:
  using Key = std::tuple<int, int, ContextExchange, int, int, Recompute, Offload, bool, int,
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
  // With the share of blocks that repeat their work, and whether weights are rounded again and
  // again.
  Memo<std::tuple<Key, double, bool>, std::vector<double>> costs_;
  Memo<Key, KeptBytes> kept_;
  Memo<Key, StageProfile> stages_;
  Memo<Key, Messages> messages_;
};

}  // namespace meshwright
