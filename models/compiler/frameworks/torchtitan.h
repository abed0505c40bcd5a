// torchtitan's limits and its settings need these facts about how it runs a plan.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"

namespace meshwright {

// DDP's buckets: torchtitan/models/llama3/infra/parallelize.py, apply_ddp().
constexpr std::int64_t torchtitan_ddp_bucket_bytes = std::int64_t{100} << 20;

// Returns whether DDP runs the plan. Sharding covers all ranks that share a batch's gradients, and
// only pure data parallelism may do without it.
inline bool is_ddp(const Parallelism& p) { return p.zero_stage == 0 && p.data * p.context > 1; }

// Returns the flavor of torchtitan's llama3 that has these sizes ("8B"), or an empty string if none
// has.
std::string flavor_of(const Model& model);
// Returns a config.json of that flavor, or of its name in flags ("llama3_8b"). Null if it is
// unknown.
nlohmann::json config_of_flavor(std::string_view flavor);

}  // namespace meshwright
