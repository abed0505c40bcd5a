// Reads version 2 of SageMaker's model parallel library (from December 2023): sharding in the
// manner of FSDP, and tensor, context and expert parallelism under torchrun, without pipelines.
#include <fmt/format.h>
#include <algorithm>

#include "models/core/error.h"
#include "models/job/distribution.h"

namespace meshwright::job {

namespace {

struct Version2 {
  int shard = 0, tensor = 1, context = 1, expert = 1;
  bool offload = false;
  int horizon = 2;
};

Version2 read_keys(Fields& fields, const DistributionContext& context) {
  Job& job = context.job;
  Version2 v;
  take(fields, "hybrid_shard_degree", v.shard);
  if (v.shard < 0)
    fields.fail(
        "hybrid_shard_degree",
        fmt::format("{} is no number of ranks; use 1 or more, or 0 for all of them", v.shard));
  if (v.shard != 0) v.shard = read_degree(fields, "hybrid_shard_degree", 1);
  v.tensor = read_degree(fields, "tensor_parallel_degree", 1);
  v.context = read_degree(fields, "context_parallel_degree", 1);
  v.expert = read_degree(fields, "expert_parallel_degree", 1);
  // The library's default is true, but it only has an effect on a wrapper that a training script
  // puts around layers. So the default here is false.
  take(fields, "sm_activation_offloading", v.offload);
  v.horizon = read_degree(fields, "activation_loading_horizon", v.horizon);
  if (fields.has("activation_loading_horizon") && !v.offload)
    warn(job, fields, "activation_loading_horizon",
         "no effect unless sm_activation_offloading is given as true");
  const Training& training = job.plan.training;
  const bool recomputes =
      training.recompute != Recompute::none || !training.recompute_modules.empty();
  if (!fields.has("sm_activation_offloading") && recomputes)
    warn(job, fields, "sm_activation_offloading",
         "left out, which is off here; the library's default, true, offloads what a script wraps");
  if (v.offload) warn_about_offload(fields, "sm_activation_offloading", job);
  for (const auto& [key, why] :
       {std::pair{"fsdp_cache_flush_warnings", "memory is planned, no allocator is flushed"},
        std::pair{"allow_empty_shards", "shards are equal: flat buffers are padded"}})
    if (fields.has(key)) {
      fields.required<bool>(key);
      warn(job, fields, key, std::string("no effect: ") + why);
    }
  return v;
}

// Reads the arguments of the library's MoEConfig. The library gets them from a training script.
// Here they are given next to the launch keys.
void read_moe_config(Fields fields, const Version2& v, Job& job) {
  if (job.model.experts == 0)
    fields.fail("", "needs a model with experts; remove it, or use family 'mixtral'");
  const double coefficient = job.model.router_aux_loss_coef;
  if (!fields.optional<bool>("smp_moe", true) && v.expert > 1)
    fields.fail(
        "smp_moe",
        fmt::format("false, but expert_parallel_degree is {}; use true, or degree 1", v.expert));
  int balancing = 1;
  take_word(fields, "moe_load_balancing", "load balancing",
            {"sinkhorn", "aux_loss", "balanced", "none"}, balancing);
  if (!fields.has("moe_load_balancing"))
    warn(job, fields, "moe_load_balancing",
         "left out: 'aux_loss' takes the place of the library's default, 'sinkhorn'");
  if (balancing == 0 || balancing == 2)
    fields.fail("moe_load_balancing",
                "is not done here; use 'aux_loss', the balancing loss of the router");
  if (balancing == 3 && coefficient > 0)
    fields.fail("moe_load_balancing",
                fmt::format("'none' contradicts the model's router_aux_loss_coef {}; set that to 0",
                            coefficient));
  if (fields.has("moe_aux_loss_coeff")) {
    const auto given = fields.required<double>("moe_aux_loss_coeff");
    if (given != coefficient)
      fields.fail("moe_aux_loss_coeff",
                  fmt::format("{} contradicts the model's router_aux_loss_coef {}; make them equal",
                              given, coefficient));
  }
  if (fields.optional<double>("moe_z_loss_coeff", 0.001) != 0)
    warn(job, fields, "moe_z_loss_coeff", "no z-loss is computed; 0 says so");
  if (fields.optional<bool>("global_token_shuffle", false))
    fields.fail("global_token_shuffle", "true is not done here: tokens stay with their sequence");
  if (!fields.optional<bool>("moe_all_to_all_dispatcher", true))
    fields.fail("moe_all_to_all_dispatcher", "false is not done here: tokens travel all-to-all");
  if (fields.has("random_seed")) {
    fields.required<std::int64_t>("random_seed");
    warn(job, fields, "random_seed", "no effect: initial values follow training.seed");
  }
  fields.done();
}

void check_degrees(const Fields& fields, const Version2& v, int ranks) {
  if (v.expert > 1 && v.tensor > 1)
    fields.fail("expert_parallel_degree",
                fmt::format("{} does not go with tensor_parallel_degree {}; use 1 for one of them",
                            v.expert, v.tensor));
  const std::int64_t shard = std::max(v.shard, 1);
  const std::int64_t product = shard * v.tensor * v.expert;
  if (v.tensor * static_cast<std::int64_t>(v.expert) > ranks || product > ranks ||
      ranks % product != 0)
    fields.fail(
        v.shard > 1    ? "hybrid_shard_degree"
        : v.tensor > 1 ? "tensor_parallel_degree"
                       : "expert_parallel_degree",
        fmt::format("shard {} x tensor {} x expert {} = {} does not divide the {} processes; "
                    "use degrees whose product does",
                    shard, v.tensor, v.expert, product, ranks));
  const std::int64_t parts = static_cast<std::int64_t>(v.tensor) * v.context;
  if (parts > ranks || ranks % parts != 0)
    fields.fail("context_parallel_degree",
                fmt::format("tensor {} x context {} = {} does not divide the {} processes; "
                            "use degrees whose product does",
                            v.tensor, v.context, parts, ranks));
  const std::int64_t sharded = v.shard == 0 ? ranks / v.tensor : v.shard;
  if (v.context > sharded)
    fields.fail(
        "context_parallel_degree",
        fmt::format("{} exceeds hybrid_shard_degree {}; use at most that", v.context, sharded));
}

void set_seed(Fields& fields, const DistributionContext& context) {
  if (!fields.has("random_seed")) return;
  const auto seed = fields.required<std::int64_t>("random_seed");
  if (seed < 0) fields.fail("random_seed", fmt::format("{} is negative; use 0 or more", seed));
  Training& training = context.job.plan.training;
  if (context.given("seed") && training.seed != static_cast<std::uint64_t>(seed))
    fields.fail("random_seed", fmt::format("{} contradicts training.seed {}; keep one of them",
                                           seed, training.seed));
  training.seed = static_cast<std::uint64_t>(seed);
}

}  // namespace

const std::vector<std::string>& version_2_keys() {
  static const std::vector<std::string> keys = {"hybrid_shard_degree",
                                                "sm_activation_offloading",
                                                "activation_loading_horizon",
                                                "fsdp_cache_flush_warnings",
                                                "allow_empty_shards",
                                                "tensor_parallel_degree",
                                                "context_parallel_degree",
                                                "expert_parallel_degree",
                                                "random_seed",
                                                "moe_config"};
  return keys;
}

void read_version_2(Fields fields, const DistributionContext& context) {
  warn_unknown(fields, version_2_keys(), version_1_keys(), 2, context.job);
  const Version2 v = read_keys(fields, context);
  const std::int64_t model = static_cast<std::int64_t>(v.tensor) * v.context;
  const int ranks = context.ranks(static_cast<int>(std::min<std::int64_t>(model, 1 << 30)));
  check_degrees(fields, v, ranks);
  set_seed(fields, context);
  if (fields.has("moe_config")) read_moe_config(fields.object("moe_config"), v, context.job);
  Parallelism& p = context.job.plan.parallelism;
  p.tensor = v.tensor;
  p.context = v.context;
  p.expert = v.expert;
  p.data = ranks / (v.tensor * v.context);
  p.zero_stage = v.shard == 1 ? 0 : 3;
  p.shard = std::max(v.shard, 1);  // degree 0 means all of data x context, as shard 1 does in ZeRO
  // The library offloads only the saved inputs of recomputed layers.
  if (v.offload && context.job.plan.training.recompute != Recompute::none) {
    p.offload = Offload::layers;
    p.offload_horizon = v.horizon;
  }
}

}  // namespace meshwright::job
