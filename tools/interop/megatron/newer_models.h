// Models after Llama and Mixtral: norms of queries and keys (Qwen3), latent attention (DeepSeek),
// experts with shared ones beside them and in some layers only.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/architectures/model.h"
#include "tools/interop/settings.h"

namespace meshwright {

// What makes a `llama` config.json with the sizes that are there one of Qwen3's or DeepSeek's.
// `experts`: 0, a model without. InputError for blocks that are not built.
void read_qwen3(Settings& from, std::int64_t experts, nlohmann::json& model);
void read_latent_attention(Settings& from, std::int64_t experts, nlohmann::json& model);
// Experts that all layers have, and that are alone: those of Mixtral.
void check_plain_experts(Settings& from);
// Those that --moe-layer-freq leaves without experts: a number, or a pattern as in
// "([0]*3+[1]*58)".
std::vector<int> dense_layers(Settings& from, std::int64_t layers);
// Places of experts, or none: expert_capacity_factor or expert_dropless.
void read_places(Settings& from, nlohmann::json& model);

// What these models have besides; nothing of others.
void write_newer_model(const Model& model, Settings& to);

// The settings that these read.
std::vector<std::string> settings_of_newer_models();

}  // namespace meshwright
