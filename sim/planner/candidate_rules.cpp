#include "sim/planner/candidate_rules.h"

#include <algorithm>
#include <numeric>

#include "models/compiler/frameworks/following.h"
#include "models/compiler/plan/context_rules.h"
#include "models/compiler/plan/units_to_cut.h"
#include "models/core/error.h"

namespace meshwright::sim {

namespace {

bool tensor_divides(int tensor, const ModelSizes& sizes) {
  if (sizes.captured) return true;  // the capture says which degrees divide it
  for (const int size :
       {sizes.heads, sizes.kv_heads, sizes.hidden, sizes.ffn, sizes.shared_ffn, sizes.dense_ffn})
    if (size % tensor != 0) return false;
  return true;
}

}  // namespace

Ruling CandidateRules::rule_against(const Candidate& candidate, bool chosen) const {
  choose(candidate, asked_);
  Ruling ruling = broken_rule(asked_, open_.sizes);
  if (ruling && ruling->not_yet && !chosen) throw InputError(in_file(open_.job.file, *ruling));
  return ruling;
}

// Returns how a candidate breaks a limit of the framework, among the limits on `keys`, or nothing.
Ruling CandidateRules::limit_against(const Candidate& candidate,
                                     std::initializer_list<std::string_view> keys) const {
  const Framework framework = open_.job.plan.training.framework;
  if (framework == Framework::meshwright) return {};
  const Plan plan = as_run_by(framework, to_plan(candidate, open_.base), open_.job.model);
  for (const Limit& limit : limits_of(framework))
    if (std::find(keys.begin(), keys.end(), limit.key) != keys.end() &&
        !limit.holds(plan, open_.job.model))
      return violation_of(framework, limit);
  return {};
}

Ruling CandidateRules::against_degrees(const Candidate& candidate) const {
  const ModelSizes& sizes = open_.sizes;
  if (!tensor_divides(candidate.tensor, sizes))
    return broken("", "tensor does not divide heads, hidden and ffn");
  const Parallelism p = to_plan(candidate, open_.base).parallelism;
  if (p.has_two_exchanges() &&
      std::ranges::count(choices_of_context_heads(p, sizes), candidate.context_heads) == 0)
    return broken("", "context_heads does not divide context, or the heads that it exchanges");
  if (p.exchanges_heads() && p.attends_to_whole_sequences() &&
      std::gcd(sizes.heads, sizes.kv_heads) % (candidate.tensor * candidate.context) != 0)
    return broken("", "tensor x context does not divide the heads that all_to_all exchanges");
  if (candidate.pipeline > 1 && candidate.pipeline > units_to_cut(sizes))
    return broken("", "more stages than layers, embedding and head");
  if (open_.base.training.global_batch % candidate.data != 0)
    return broken("", "data does not divide the global batch");
  return {};
}

// Sharding is decided later, so a shape is only rejected if every ZeRO stage that the job allows
// breaks a limit.
Ruling CandidateRules::against_shape(const Candidate& candidate) const {
  Ruling ruling = rule_against(candidate);
  if (ruling) return ruling;
  const Parallelism& p = open_.base.parallelism;
  Candidate sharded = candidate;
  sharded.shard = open_.job.is_auto("parallelism.shard") ? 1 : p.shard;
  for (const int stage : open_.choices("parallelism.zero_stage", p.zero_stage, {0, 1, 2, 3})) {
    sharded.zero_stage = stage;
    ruling = limit_against(
        sharded, {"model", "parallelism.pipeline", "parallelism.tensor", "parallelism.context",
                  "parallelism.context_exchange", "parallelism.expert"});
    if (!ruling) return {};
  }
  return ruling;
}

Ruling CandidateRules::against_placement(const Candidate& candidate) const {
  return limit_against(candidate, {"parallelism.placement"});
}

Ruling CandidateRules::against_kernels(const Candidate& candidate) const {
  const std::int64_t rows =
      std::int64_t{candidate.micro_batch} * open_.base.training.sequence_length / candidate.context;
  if (candidate.sequence_parallel && !open_.sizes.captured && rows % candidate.tensor != 0)
    return broken("", "sequence_parallel needs rows that tensor divides");
  return limit_against(candidate, {"parallelism.sequence_parallel", "parallelism.tensor_chunks",
                                   "training.compiler", "training.attention"});
}

Ruling CandidateRules::against_cut(const Candidate& candidate, int micro_batches) const {
  const ScheduleInfo& schedule = schedule_info(candidate.schedule);
  if (schedule.in_groups && micro_batches % candidate.pipeline != 0)
    return broken("", "{} needs micro-batches in multiples of pipeline", schedule.name);
  if (Ruling ruling = rule_against(candidate, open_.job.is_auto("parallelism.schedule")))
    return ruling;
  return limit_against(candidate, {"parallelism.schedule", "parallelism.virtual_stages"});
}

Ruling CandidateRules::against_sharding(const Candidate& candidate) const {
  if (Ruling ruling = rule_against(candidate)) return ruling;
  return limit_against(
      candidate, {"parallelism.zero_stage", "parallelism.shard", "parallelism.reduce_gradients",
                  "parallelism.reshard_after_forward"});
}

Ruling CandidateRules::against_saving(const Candidate& candidate) const {
  const bool chosen =
      open_.job.is_auto("parallelism.schedule") || open_.job.is_auto("parallelism.offload");
  if (Ruling ruling = rule_against(candidate, chosen)) return ruling;
  return limit_against(
      candidate, {"training.recompute", "training.recompute_fraction", "parallelism.offload"});
}

}  // namespace meshwright::sim
