// Facts about how torchtitan runs a plan, which its limits and its settings need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "models/core/json.h"

namespace meshwright::compiler {

// Bytes of DDP's buckets, as apply_ddp() in torchtitan/models/llama3/infra/parallelize.py sets
// them.
constexpr std::int64_t torchtitan_ddp_bucket_bytes = std::int64_t{100} << 20;

// Returns whether torchtitan runs the plan with DDP: if states are not sharded and several ranks
// share a batch's gradients. Its limits allow this under pure data parallelism only.
inline bool is_ddp(const Parallelism& p) { return p.zero_stage == 0 && p.data * p.context > 1; }

// Returns the flavor of torchtitan's llama3 that has the sizes, rotary base and norm epsilon of
// this model ("8B"), or an empty string if none has.
std::string flavor_of(const Model& model);
// Returns a config.json of the flavor with this name ("8B"), also if the name is spelled as in
// flags ("llama3_8b") or names an attention ("8B_flex"). Returns null if the name is unknown.
json config_of_flavor(std::string_view flavor);

}  // namespace meshwright::compiler
