// Reads and writes models newer than Llama and Mixtral: with norms of queries and keys (Qwen3),
// with latent attention (DeepSeek), with shared experts, or with experts in some layers only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/architectures/model.h"
#include "models/core/json.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Turn `model`, a `llama` config.json with its sizes, into one of Qwen3 or DeepSeek. `experts` is
// the number of experts, 0 for a model without. Throw InputError for models that are not built.
void read_qwen3(Settings& from, std::int64_t experts, json& model);
void read_latent_attention(Settings& from, std::int64_t experts, json& model);
// Throws InputError for shared experts and for sigmoid scores, which are built with latent
// attention only.
void check_plain_experts(Settings& from);
// Returns the layers, from 0, that --moe-layer-freq leaves without experts. The setting is a number
// n (every n-th layer has experts, from layer 0 on), or a pattern as in "([0]*3+[1]*58)". Without
// it, every layer has experts. Throws InputError if the setting is neither, or if the pattern has
// another number of layers.
std::vector<int> dense_layers(Settings& from, std::int64_t layers);
// Reads the capacity of experts: sets expert_capacity_factor, or expert_dropless if no setting
// limits the capacity.
void read_places(Settings& from, json& model);

// Writes the settings that these models need in addition to those of Llama and Mixtral.
void write_newer_model(const Model& model, Settings& to);

// Returns the names of the settings that the functions above read, except for those that
// megatron_model_rule() lists itself.
std::vector<std::string> settings_of_newer_models();

}  // namespace meshwright::interop
