// Reads the model of a training script as a config.json of transformers.
#include "models/core/error.h"
#include "tools/interop/model_names.h"
#include "tools/interop/sagemaker/sagemaker.h"

namespace meshwright::interop {

namespace {

std::string argument(const char* name) { return std::string("hyperparameters.") + name; }

struct ScriptSizes {
  std::optional<std::int64_t> layers, hidden, heads, words, length, ffn, groups, experts, chosen;
};

ScriptSizes read_sizes(Settings& from) {
  ScriptSizes s;
  s.layers = from.whole(argument("num_layers"));
  s.hidden = from.whole(argument("hidden_width"));
  s.heads = from.whole(argument("num_heads"));
  s.words = from.whole(argument("vocab_size"));
  s.length = from.whole(argument("max_context_width"));
  s.ffn = from.whole(argument("llama_intermediate_size"));
  if (const auto ffn = from.whole(argument("intermediate_size"))) s.ffn = ffn;
  s.groups = from.whole(argument("num_key_value_heads"));
  s.experts = from.whole(argument("num_local_experts"));
  s.chosen = from.whole(argument("num_experts_per_tok"));
  return s;
}

json llama_of(const ScriptSizes& s, Settings& from) {
  json model = {{"model_type", s.experts ? "mixtral" : "llama"},
                {"num_hidden_layers", *s.layers},
                {"hidden_size", *s.hidden},
                {"num_attention_heads", *s.heads},
                {"num_key_value_heads", s.groups.value_or(*s.heads)},
                {"intermediate_size", *s.ffn},
                {"vocab_size", s.words.value_or(32000)},
                {"max_position_embeddings", s.length.value_or(2048)},
                {"tie_word_embeddings", false}};
  model["rms_norm_eps"] = 1e-5;
  if (const auto base = from.number(argument("rope_theta"))) model["rope_theta"] = *base;
  if (s.experts) {
    model["num_local_experts"] = *s.experts;
    model["num_experts_per_tok"] = s.chosen.value_or(2);
  }
  return model;
}

// The examples leave everything else to transformers' GPTNeoXConfig.
json neox_of(const ScriptSizes& s) {
  return {{"model_type", "gpt_neox"},
          {"num_hidden_layers", *s.layers},
          {"hidden_size", *s.hidden},
          {"num_attention_heads", *s.heads},
          {"intermediate_size", s.ffn.value_or(4 * *s.hidden)},
          {"vocab_size", s.words.value_or(50257)},
          {"max_position_embeddings", s.length.value_or(2048)},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", 1e-5},
          {"rotary_pct", 0.25},
          {"rotary_emb_base", 10000},
          {"use_parallel_residual", true},
          {"tie_word_embeddings", false}};
}

void read_script_model(Settings& from, JobDraft& to) {
  const ScriptSizes s = read_sizes(from);
  const auto type = from.word(argument("model_type"));
  from.number(argument("rope_theta"));
  for (const char* each : {"hf_model_name_or_path", "model_name_or_path", "model_id", "model_name"})
    if ((!s.layers || !s.hidden || !s.heads) && from.has(argument(each)))
      take_named_model(from, argument(each), to);
  if (to.has("model") || !s.layers || !s.hidden || !s.heads) return;
  const bool is_gpt = !type || *type == "gpt2";
  if (type && (*type == "gpt_neox" || *type == "gptneox")) {
    to.set("model", neox_of(s));
  } else if (!is_gpt && s.ffn) {
    to.set("model", llama_of(s, from));
  } else if (!is_gpt) {
    to.ask("model",
           from.spelled(argument("model_type")) + " " + *type + " without intermediate_size");
  } else if (is_gpt) {
    to.set("model", {{"model_type", "gpt2"},
                     {"n_layer", *s.layers},
                     {"n_embd", *s.hidden},
                     {"n_head", *s.heads},
                     {"vocab_size", s.words.value_or(50257)},
                     {"n_positions", s.length.value_or(1024)}});
  }
}

void write_script_model(const JobValues& from, Settings& to) {
  const Model& m = from.model;
  const auto add = [&](const char* name, json value) { to.add(argument(name), std::move(value)); };
  add("model_type", m.architecture == Architecture::llama ? "llama_v2"
                    : m.architecture == Architecture::mixtral
                        ? "mixtral"
                        : std::string(name_of(m.architecture)));
  add("num_layers", m.layers);
  add("hidden_width", m.hidden);
  add("num_heads", m.heads);
  add("num_key_value_heads", m.kv_heads);
  add("intermediate_size", m.ffn);
  add("vocab_size", m.vocabulary);
  if (m.experts == 0) return;
  add("num_local_experts", m.experts);
  add("num_experts_per_tok", m.experts_per_token);
}

}  // namespace

Rule script_model_rule() {
  return {{"model"},
          {argument("model_type"), argument("num_layers"), argument("hidden_width"),
           argument("num_heads"), argument("num_key_value_heads"),
           argument("hf_model_name_or_path"), argument("model_name_or_path"),
           argument("llama_intermediate_size"), argument("intermediate_size"),
           argument("vocab_size"), argument("num_local_experts"), argument("num_experts_per_tok")},
          read_script_model,
          write_script_model,
          "a config.json beside it says the rest, and is taken first"};
}

}  // namespace meshwright::interop
