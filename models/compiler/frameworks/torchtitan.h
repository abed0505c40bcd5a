// What torchtitan makes of a plan, for its limits and its settings.
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

// Sharding is of all ranks that share a batch's gradients; pure data parallelism may do without.
inline bool is_ddp(const Parallelism& p) { return p.zero_stage == 0 && p.data * p.context > 1; }

// The flavor of torchtitan's llama3 that has these sizes ("8B"); empty: none.
std::string flavor_of(const Model& model);
// A config.json of that flavor, or of its name in flags ("llama3_8b"); null: unknown.
nlohmann::json config_of_flavor(std::string_view flavor);

}  // namespace meshwright
