#include "models/compiler/plan/sharding.h"

namespace meshwright::compiler {

bool stays_whole(const Plan& plan, const Parameter& parameter) {
  const Parallelism& p = plan.parallelism;
  return p.zero_stage == 3 && parameter.shape.elements() < p.persistence_threshold;
}

int zero_stage_of(const Plan& plan, const Parameter& parameter) {
  const bool of_experts = parameter.of_experts && plan.degrees().has_expert_groups();
  const int shards = of_experts ? plan.degrees().expert_shard() : plan.shard_group();
  if (shards == 1) return 0;
  const bool whole = stays_whole(plan, parameter);
  if (!parameter.trainable)  // it has no states to shard
    return plan.parallelism.zero_stage == 3 && !whole ? 3 : 0;
  return whole ? 1 : plan.parallelism.zero_stage;
}

}  // namespace meshwright::compiler
