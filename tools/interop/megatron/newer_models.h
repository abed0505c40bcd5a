// Reads and writes models after Llama and Mixtral: with norms of queries and keys (Qwen3), with
// latent attention (DeepSeek), with shared experts, or with experts in some layers only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/architectures/model.h"
#include "models/core/json.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Turn `model`, a `llama` config.json with its sizes, into one of Qwen3 or DeepSeek. `experts` is
// the number of experts, 0 for a model without. Throw InputError for blocks that are not built.
void read_qwen3(Settings& from, std::int64_t experts, json& model);
void read_latent_attention(Settings& from, std::int64_t experts, json& model);
// Throws InputError for shared experts and for sigmoid scores, which Mixtral does not have: they
// are built with latent attention only.
void check_plain_experts(Settings& from);
// Returns the layers, from 0, that --moe-layer-freq leaves without experts. The setting is a number
// n (every n-th layer has experts, from layer 0 on), or a pattern as in "([0]*3+[1]*58)". Without
// it, every layer has experts.
std::vector<int> dense_layers(Settings& from, std::int64_t layers);
// Reads the capacity of experts: sets expert_capacity_factor, or expert_dropless if there is no
// limit.
void read_places(Settings& from, json& model);

// Writes the settings that only these models have. Writes nothing for other models.
void write_newer_model(const Model& model, Settings& to);

// Returns the names of the settings that the functions above read, except for those that
// megatron_model_rule() lists itself.
std::vector<std::string> settings_of_newer_models();

}  // namespace meshwright::interop
