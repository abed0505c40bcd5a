// Reads the model of a recipe as a config.json of transformers, and writes it into a recipe.

#include <algorithm>

#include "models/architectures/hub_names.h"
#include "models/core/error.h"
#include "tools/interop/hyperpod/hyperpod.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

struct Size {
  const char *recipe, *config;
  bool is_needed;
};
constexpr Size sizes[] = {
    {"model.num_hidden_layers", "num_hidden_layers", true},
    {"model.hidden_size", "hidden_size", true},
    {"model.num_attention_heads", "num_attention_heads", true},
    {"model.intermediate_size", "intermediate_size", true},
    {"model.vocab_size", "vocab_size", true},
    {"model.num_key_value_heads", "num_key_value_heads", false},
};

// Sets the number of positions. The settings are read even if a config.json gives it, so that they
// count as known.
void read_positions(Settings& from, json& model) {
  const std::int64_t width = from.whole("model.max_context_width").value_or(2048);
  model["max_position_embeddings"] = width;
  const Setting* given = from.read("model.max_position_embeddings");
  if (given != nullptr && given->value.is_number()) model["max_position_embeddings"] = given->value;
}

void read_window(Settings& from, JobDraft& to) {
  for (const char* name : {"model.mistral_sliding_window", "model.mixtral_sliding_window"}) {
    const auto window = from.whole(name);
    if (window && *window < from.whole("model.max_context_width").value_or(2048))
      to.remark(std::string(name) + " " + std::to_string(*window) +
                ": attention over a window is not built; whole sequences are predicted");
  }
}

void read_experts(Settings& from, json& model) {
  const std::int64_t experts = from.whole("model.num_local_experts").value_or(0);
  const std::int64_t chosen = from.whole("model.num_experts_per_tok").value_or(2);
  const bool is_moe = from.flag("model.moe").value_or(experts > 0);
  if (!is_moe || experts == 0) return;
  model["model_type"] = "mixtral";
  model["num_local_experts"] = experts;
  model["num_experts_per_tok"] = chosen;
}

void read_library_model(Settings& from, JobDraft& to) {
  json model = {{"model_type", "llama"}};
  const std::string type = from.word("model.model_type").value_or("llama_v3");
  bool is_whole = true;
  for (const Size& size : sizes) {
    const auto value = from.whole(size.recipe);
    if (value)
      model[size.config] = *value;
    else
      is_whole &= !size.is_needed;
  }
  read_positions(from, model);
  const auto epsilon = from.number("model.layernorm_epsilon");
  model["rms_norm_eps"] = from.number("model.rms_norm_eps").value_or(epsilon.value_or(1e-5));
  model["rope_theta"] = from.number("model.rope_theta").value_or(10000.0);
  model["tie_word_embeddings"] = from.flag("model.tie_word_embeddings").value_or(false);
  read_experts(from, model);
  read_window(from, to);
  const auto name = from.word("model.hf_model_name_or_path");
  // A config.json or --set; if neither gives it, an error asks.
  if (to.has("model") || !is_whole) return;
  for (const char* known : {"llama_v3", "llama_v2", "mistral", "mixtral"})
    if (type == known) {
      to.set("model", std::move(model));
      return;
    }
  from.fail("model.model_type", "'" + type + "' is not known; give the model's config.json" +
                                    (name ? " (of " + *name + ")" : "") + " too");
}

// Takes the model of the zoo that the recipe's own name is, with or without its owner before it, as
// in "openai-gpt-oss-120b".
void take_model_of_name(Settings& from, JobDraft& to) {
  const std::string name = from.word("run.name").value_or("");
  for (const std::string& each : {name, name.substr(std::min(name.find('-'), name.size() - 1) + 1)})
    if (const std::string found = zoo_name_of(each); !each.empty() && !found.empty()) {
      to.set("model", model_of_zoo(found));
      to.remark(from.spelled("run.name") + " " + name + ": the shape of " + found +
                " of the zoo is taken");
      return;
    }
}

// Reads the model of a recipe for NeMo, under the names of NeMo's first launcher. Sets `model` only
// if none is given, if all sizes but the key-value heads are there, and if the model is built as
// Llama is.
void read_nemo_model(Settings& from, JobDraft& to) {
  constexpr std::pair<const char*, const char*> names[] = {
      {"model.num_layers", "num_hidden_layers"},
      {"model.hidden_size", "hidden_size"},
      {"model.ffn_hidden_size", "intermediate_size"},
      {"model.num_attention_heads", "num_attention_heads"},
      {"model.num_query_groups", "num_key_value_heads"},
      {"model.max_position_embeddings", "max_position_embeddings"}};
  json model = {{"model_type", "llama"}};
  bool is_whole = true;
  for (const auto& [name, key] : names) {
    const auto value = from.whole(name);
    if (value) model[key] = *value;
    is_whole &= value.has_value() || std::string_view(key) == "num_key_value_heads";
  }
  model["rms_norm_eps"] = from.number("model.layernorm_epsilon").value_or(1e-5);
  model["tie_word_embeddings"] =
      from.flag("model.share_embeddings_and_output_weights").value_or(true);
  const std::string norm = from.word("model.normalization").value_or("layernorm");
  const std::string activation = from.word("model.activation").value_or("gelu");
  const bool biases = from.flag("model.bias").value_or(true);
  if (to.has("model")) return;
  const bool is_llama =
      norm == "rmsnorm" && activation.find("swiglu") != std::string::npos && !biases;
  if (from.has("model.config.num_layers")) return take_model_of_name(from, to);
  if (!is_whole || !is_llama) return;  // an error asks for --set model
  to.remark("the recipe's tokenizer says how many words there are; 128256 are taken, Llama 3's");
  model["vocab_size"] = 128256;
  to.set("model", std::move(model));
}

void write_model(const JobValues& from, Settings& to) {
  const Model& m = from.model;
  to.add("model.model_type", m.experts > 0 ? "mixtral" : "llama_v3");
  to.add("model.num_hidden_layers", m.layers);
  to.add("model.hidden_size", m.hidden);
  to.add("model.num_attention_heads", m.heads);
  to.add("model.num_key_value_heads", m.kv_heads);
  to.add("model.intermediate_size", m.ffn);
  to.add("model.vocab_size", m.vocabulary);
  to.add("model.max_position_embeddings",
         m.positions > 0 ? m.positions : from.plan.training.sequence_length);
  to.add("model.layernorm_epsilon", m.norm_epsilon);
  to.add("model.rope_theta", m.rotary_base);
  to.add("model.tie_word_embeddings", m.tied_embeddings);
  to.add("model.moe", m.experts > 0);
  if (m.experts == 0) return;
  to.add("model.num_local_experts", m.experts);
  to.add("model.num_experts_per_tok", m.experts_per_token);
  to.add("model.moe_load_balancing", m.router_aux_loss_coef > 0 ? "aux_loss" : "none");
}

}  // namespace

Rule recipe_model_rule() {
  return {{"model"},
          {"model.model_type", "model.num_hidden_layers", "model.hidden_size",
           "model.num_attention_heads", "model.num_key_value_heads", "model.intermediate_size",
           "model.vocab_size", "model.max_position_embeddings", "model.layernorm_epsilon",
           "model.rms_norm_eps", "model.rope_theta", "model.tie_word_embeddings", "model.moe",
           "model.num_local_experts", "model.num_experts_per_tok", "run.name"},
          [](Settings& from, JobDraft& to) {
            if (is_other_program(from))
              read_nemo_model(from, to);
            else
              read_library_model(from, to);
          },
          write_model,
          "a config.json beside the recipe says the rest, and is taken first"};
}

}  // namespace meshwright::interop
