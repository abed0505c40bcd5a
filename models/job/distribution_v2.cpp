// Version 2 of SageMaker's model parallel library (from December 2023): sharding in the manner of
// FSDP, tensor, context and expert parallelism under torchrun; no pipeline.
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/distribution.h"

namespace meshwright {

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
  // Its default is true, but acts only on a wrapper that a training script puts around layers.
  take(fields, "sm_activation_offloading", v.offload);
  v.horizon = read_degree(fields, "activation_loading_horizon", v.horizon);
  if (fields.has("activation_loading_horizon") && !v.offload)
    warn(job, fields, "activation_loading_horizon",
         "no effect unless sm_activation_offloading is given as true");
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
  static const std::vector<std::string> keys = {
      "hybrid_shard_degree",       "sm_activation_offloading", "activation_loading_horizon",
      "fsdp_cache_flush_warnings", "allow_empty_shards",       "tensor_parallel_degree",
      "context_parallel_degree",   "expert_parallel_degree",   "random_seed"};
  return keys;
}

void read_version_2(Fields fields, const DistributionContext& context) {
  warn_unknown(fields, version_2_keys(), version_1_keys(), 2, context.job);
  const Version2 v = read_keys(fields, context);
  const std::int64_t model = static_cast<std::int64_t>(v.tensor) * v.context;
  const int ranks = context.ranks(static_cast<int>(std::min<std::int64_t>(model, 1 << 30)));
  check_degrees(fields, v, ranks);
  set_seed(fields, context);
  Parallelism& p = context.job.plan.parallelism;
  p.tensor = v.tensor;
  p.context = v.context;
  p.expert = v.expert;
  p.data = ranks / (v.tensor * v.context);
  p.zero_stage = v.shard == 1 ? 0 : 3;
  p.shard = std::max(v.shard, 1);  // 0: all of data x context, which 1 means with a zero_stage
  if (v.offload) {
    p.offload = "layers";
    p.offload_horizon = v.horizon;
  }
}

}  // namespace meshwright
