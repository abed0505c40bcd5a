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
#include "models/importers/model.h"
#include "models/plan/plan.h"
#include "sim/collectives/select.h"
#include "sim/cost/cost.h"
#include "sim/planner/space.h"

namespace meshwright {

struct UnitProfile {
  bool is_block = false;
  std::int64_t parameters = 0;  // elements that the rank holds, unsharded; shared ones counted once
  // One micro-batch.
  struct Pass {
    double compute_s = 0;
    // Collectives of the tensor group: kind, bytes of the whole buffer, how many.
    std::map<std::pair<CollectiveKind, std::int64_t>, int> collectives;
  };
  Pass forward, recompute, backward;
  double weight_gradient_s = 0;  // part of backward that no earlier stage waits for
};

struct ModelProfile {
  std::vector<UnitProfile> units;       // of the whole model, in order
  std::int64_t block_kept_bytes = 0;    // what one block keeps from forward to backward
  std::int64_t other_kept_bytes = 0;    // what the other units keep
  std::int64_t task_bytes = 0;          // working space of the largest body
  std::int64_t largest_task_bytes = 0;  // the largest buffer in it
  std::int64_t parameters() const;
};

// Profiles of one model on one cluster, made once per (tensor, micro_batch, recompute,
// sequence_parallel, expert, compiler).
class Profiles {
 public:
  Profiles(const Model& model, const Plan& base, const Cluster& cluster);
  const ModelProfile& of(const Candidate& candidate);

 private:
  using Key = std::tuple<int, int, Recompute, bool, int, CompilerLevel>;
  ModelProfile measure(const Candidate& candidate) const;

  const Model& model_;
  const Plan& base_;
  const Cluster& cluster_;
  std::map<Key, ModelProfile> known_;
};

}  // namespace meshwright
