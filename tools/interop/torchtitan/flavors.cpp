// The models that torchtitan's settings name by a family and a flavor, besides llama3's: those of
// the zoo with the same sizes, and the small ones with which people try it (torchtitan 0.2.2,
// torchtitan/models/*/__init__.py, and of 2024, torchtitan/models/llama/__init__.py).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/architectures/hub_names.h"
#include "tools/interop/model_names.h"
#include "tools/interop/torchtitan/torchtitan.h"

namespace meshwright::interop {

namespace {

struct NamedFlavor {
  std::string_view family, flavor;
  std::string_view model;  // the name of one of the zoo, or a config.json
};

constexpr NamedFlavor flavors[] = {
    {"llama", "7b", "llama-2-7b"},
    {"llama", "13b", "llama-2-13b"},
    {"llama", "70b", "llama-2-70b"},
    {"llama", "debugmodel",
     R"({"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 16,
         "num_key_value_heads": 16, "intermediate_size": 768, "vocab_size": 32000,
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
         "tie_word_embeddings": false})"},
    {"llama2", "7b", "llama-2-7b"},
    {"llama2", "13b", "llama-2-13b"},
    {"llama2", "70b", "llama-2-70b"},
    {"llama4", "debugmodel",
     R"({"model_type": "llama4_text", "hidden_size": 256, "num_hidden_layers": 6,
         "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 16,
         "intermediate_size": 512, "intermediate_size_mlp": 768, "num_local_experts": 8,
         "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "use_qk_norm": false,
         "no_rope_layer_interval": 4, "attention_chunk_size": 8192, "vocab_size": 2048,
         "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
         "attn_temperature_tuning": false, "tie_word_embeddings": false})"},
    {"llama4", "17bx16e", "llama-4-scout-17b-16e"},
    {"llama4", "17bx128e", "llama-4-maverick-17b-128e"},
    {"deepseek_v3", "16b", "deepseek-v2-lite"},
    {"deepseek_v3", "671b", "deepseek-v3"},
    {"deepseek_v2", "deepseek-ai/deepseek-v2-lite", "deepseek-v2-lite"},
    {"gpt_oss", "debugmodel",
     R"({"model_type": "gpt_oss", "hidden_size": 256, "num_hidden_layers": 4,
         "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
         "attention_bias": true, "intermediate_size": 2880, "num_local_experts": 8,
         "num_experts_per_tok": 4, "swiglu_limit": 7.0, "sliding_window": 128,
         "vocab_size": 201088, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
         "rope_theta": 150000, "tie_word_embeddings": false})"},
    {"gpt_oss", "20b", "gpt-oss-20b"},
    {"gpt_oss", "120b", "gpt-oss-120b"},
    {"qwen3", "0.6b", "qwen3-0.6b"},
    {"qwen3", "1.7b", "qwen3-1.7b"},
    {"qwen3", "4b", "qwen3-4b"},
    {"qwen3", "8b", "qwen3-8b"},
    {"qwen3", "14b", "qwen3-14b"},
    {"qwen3", "32b", "qwen3-32b"},
    {"qwen3", "30b-a3b", "qwen3-30b-a3b"},
    {"qwen3", "235b-a22b", "qwen3-235b-a22b"},
    {"qwen3", "debugmodel",
     R"({"model_type": "qwen3", "hidden_size": 256, "num_hidden_layers": 8, "num_attention_heads": 16,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 2048,
         "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
         "tie_word_embeddings": true})"},
    {"qwen3", "debugmodel_moe",
     R"({"model_type": "qwen3_moe", "hidden_size": 256, "num_hidden_layers": 8,
         "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 3072, "moe_intermediate_size": 768, "num_experts": 64,
         "num_experts_per_tok": 8, "norm_topk_prob": true, "vocab_size": 2048,
         "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
         "tie_word_embeddings": false})"},
    {"deepseek_v3", "debugmodel",
     R"({"model_type": "deepseek_v2", "hidden_size": 256, "num_hidden_layers": 6,
         "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": null,
         "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "intermediate_size": 1024, "moe_intermediate_size": 256, "n_routed_experts": 8,
         "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1,
         "vocab_size": 2048, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
         "rope_theta": 1e4, "tie_word_embeddings": false})"},
};

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Returns the name of a model of the zoo, a config.json, or null if the sizes are not known here.
json model_of_flavor(std::string_view family, std::string_view flavor) {
  std::string wanted = in_lower_case(flavor);
  if (wanted.starts_with(std::string(family) + "_")) wanted.erase(0, family.size() + 1);
  // Flavors that differ in attention's mask or kernel have the same sizes.
  for (const std::string_view end : {"_flex", "_varlen", "_flex_attn", "_varlen_attn", "_irope"})
    if (wanted.ends_with(end)) {
      wanted.erase(wanted.size() - end.size());
      break;
    }
  for (const NamedFlavor& row : flavors)
    if (row.family == family && row.flavor == wanted)
      return row.model.starts_with('{') ? json::parse(row.model)
                                        : model_of_zoo(std::string(row.model));
  return nullptr;
}

// Returns the model of transformers' code that the flavor `debugmodel` of its backend trains: the
// named model with sizes of its own. Returns null if the named model is not in the zoo.
json small_model_of_hub(const std::string& name) {
  const std::string found = zoo_name_of(name);
  json config = found.empty() ? json() : config_of_zoo(found);
  if (!config.is_object() || !config.contains("num_hidden_layers")) return nullptr;
  config.update({{"hidden_size", 256},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 16},
                 {"num_key_value_heads", 16},
                 {"head_dim", 16},
                 {"intermediate_size", 768}});
  return config;
}

// NeMo AutoModel names its model on the Hub.
constexpr const char* automodel_name = "model.pretrained_model_name_or_path";

// Sets the model to the sizes of the flavor, unless a config.json or --set has given one.
void read_model(Settings& from, JobDraft& to) {
  const std::optional<std::string> name = from.word("model.name");
  std::optional<std::string> flavor = from.word("model.flavor");
  from.word("experimental.custom_import");
  if (const auto norm = from.word("model.norm_type");
      norm && norm->find("rmsnorm") == std::string::npos)
    to.remark("model.norm_type " + *norm + ": planned with RMSNorms, which cost a little less");
  const std::optional<std::string> module = from.word("module");
  if (const auto config = from.word("config")) flavor = config;
  if (from.has(automodel_name)) return take_named_model(from, automodel_name, to);
  if (to.has("model")) return;
  const std::string family = name.value_or(module.value_or("llama3"));
  const bool is_known = family == "llama3" || family == "llama3_ft" || family == "vlm";
  // transformers' own code trains the model that this setting names on the Hub.
  constexpr const char* on_hub = "hf_transformers.model";
  if (family.starts_with("transformers_") && family.ends_with("backend") && from.has(on_hub)) {
    if (flavor == "full") return take_named_model(from, on_hub, to);
    if (json small = small_model_of_hub(*from.word(on_hub));
        flavor == "debugmodel" && small != nullptr)
      return to.set("model", std::move(small));
  }
  if (family == "vlm")
    to.remark(from.spelled(from.has("model.name") ? "model.name" : "module") +
              " vlm reads pictures too; the language model alone is planned, llama3's " +
              flavor.value_or("debugmodel"));
  if (family == "flux")
    from.fail(from.has("model.name") ? "model.name" : "module",
              "'flux' trains a model of images by diffusion, which is not read");
  json config = is_known ? config_of_flavor(flavor.value_or("debugmodel"))
                : flavor ? model_of_flavor(family, *flavor)
                         : json(nullptr);
  if (config.is_null())
    from.fail(flavor && is_known       ? from.has("model.flavor") ? "model.flavor" : "config"
              : from.has("model.name") ? "model.name"
                                       : "module",
              "'" + family + (flavor ? " " + *flavor : "") +
                  "': its sizes are not known here; give its config.json beside this file, or "
                  "--set model=NAME");
  to.set("model", std::move(config));
}

}  // namespace

Rule torchtitan_model_rule() {
  return {{"model"},
          {"model.name", "model.flavor", "model.norm_type", "experimental.custom_import", "module",
           "config", "hf_transformers.model", automodel_name},
          read_model,
          [](const JobValues& from, Settings& to) {
            const std::string flavor = flavor_of(from.model);
            to.add("model.name", flavor.empty() ? "llama3_meshwright" : "llama3");
            to.add("model.flavor", flavor.empty() ? "job" : flavor);
            to.add("model.hf_assets_path", ".");
            if (flavor.empty()) to.add("experimental.custom_import", "meshwright_model");
          },
          "sizes that are no flavor of llama3 are registered by meshwright_model.py beside the "
          "settings; config.json has them for the way back"};
}

}  // namespace meshwright::interop
