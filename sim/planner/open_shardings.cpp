// Lists the shardings of a space.
#include "models/core/divisors.h"
#include "sim/planner/open_keys.h"

namespace meshwright::sim {

namespace {

// Returns the choices of when gradients are reduced that give different plans. ZeRO 1 that
// reduces in every micro-batch is ZeRO 2, and ZeRO 2 that reduces once a step is ZeRO 1.
std::vector<ReduceGradients> reductions_of(const OpenKeys& open, const Candidate& shape, int stage,
                                           int micro_batches) {
  using enum ReduceGradients;
  const bool free_stage = open.job.is_auto("parallelism.zero_stage");
  std::vector<ReduceGradients> all = {usual};
  if (micro_batches > 1 && stage == 1 && !free_stage && !open.base.parallelism.shard_whole)
    all = {usual, each};
  if (micro_batches > 1 && stage == 2 && !free_stage) all = {each, last};
  if (micro_batches > 1 && stage == 2 && free_stage) all = {shape.pipeline == 1 ? usual : each};
  if (micro_batches > 1 && stage == 3) all = {usual, last};
  return open.choices("parallelism.reduce_gradients", open.base.parallelism.reduce_gradients, all);
}

// Returns whether a ZeRO 2 plan equals a ZeRO 1 plan that is also in the space.
bool is_zero_1(const OpenKeys& open, const Candidate& shape, ReduceGradients reduce,
               int micro_batches) {
  using enum ReduceGradients;
  const bool same = reduce != usual || shape.pipeline > 1;
  return open.job.is_auto("parallelism.zero_stage") &&
         !open.job.is_auto("parallelism.reduce_gradients") && micro_batches > 1 && same;
}

// Returns whether plans that keep gathered parameters for the backward are worth enumerating. With
// several stages they differ from plans of ZeRO 1 only in when parameters are gathered, and would
// double the space for a few percent. They are still enumerated if the job fixes the ZeRO stage.
bool keeps_something_else(const OpenKeys& open, const Candidate& shape) {
  return shape.pipeline == 1 || !open.job.is_auto("parallelism.zero_stage");
}

}  // namespace

std::vector<Sharding> shardings_of(const OpenKeys& open, const Candidate& shape,
                                   int micro_batches) {
  const Parallelism& p = open.base.parallelism;
  const int replicas = shape.replicas();
  std::vector<int> degrees = {1};
  for (const int degree : divisors(replicas))
    if (degree > 1 && degree < replicas && !p.shard_whole) degrees.push_back(degree);
  std::vector<Sharding> found;
  for (const int stage :
       open.choices("parallelism.zero_stage", p.zero_stage,
                    replicas > 1 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0})) {
    const bool cuts_matrices = stage > 0 && open.base.training.optimizer == OptimizerKind::muon;
    if (cuts_matrices && !p.shard_whole && open.job.is_auto("parallelism.zero_stage")) continue;
    if (open.base.training.fp8_gathers && stage < 3 && replicas > 1) continue;
    const std::vector<int> shards =
        open.choices("parallelism.shard", p.shard, stage > 0 ? degrees : std::vector<int>{1});
    const std::vector<ReduceGradients> reductions =
        reductions_of(open, shape, stage, micro_batches);
    if (stage == 2 && is_zero_1(open, shape, reductions.front(), micro_batches)) continue;
    const std::vector<bool> kept = open.choices(
        "parallelism.reshard_after_forward", p.keeps_gathered,
        stage == 3 && keeps_something_else(open, shape) ? std::vector<bool>{false, true}
                                                        : std::vector<bool>{false});
    for (const ReduceGradients reduce : reductions)
      for (const bool keeps : kept) found.push_back({stage, shards.front(), reduce, keeps});
    for (std::size_t i = 1; i < shards.size(); ++i)
      found.push_back({stage, shards[i], reductions.front(), kept.front()});
  }
  return found;
}

}  // namespace meshwright::sim
