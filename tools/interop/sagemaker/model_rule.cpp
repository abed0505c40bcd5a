// Reads the model of a training script as a config.json of transformers, and writes it as the
// script's arguments.
#include "models/core/error.h"
#include "tools/interop/model_names.h"
#include "tools/interop/sagemaker/sagemaker.h"

namespace meshwright::interop {

namespace {

// Returns the names of a script's arguments as settings: those of an estimator have the prefix
// "hyperparameters.", those of a command line have none.
class Names {
 public:
  explicit Names(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string operator()(const char* name) const { return prefix_ + name; }

 private:
  std::string prefix_;
};

struct ScriptSizes {
  std::optional<std::int64_t> layers, hidden, heads, words, length, ffn, groups, experts, chosen;
};

ScriptSizes read_sizes(Settings& from, const Names& argument) {
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

json llama_of(const ScriptSizes& s, Settings& from, const Names& argument) {
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

// Returns a GPT-NeoX model with these sizes. The examples set only the sizes, and transformers'
// GPTNeoXConfig the rest.
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

// Sets the model that the script's arguments give by its sizes or by its name. `words` is the size
// of the vocabulary if the script's argument is left out.
void read_script_model(Settings& from, JobDraft& to, const Names& argument,
                       std::optional<std::int64_t> words = {}) {
  ScriptSizes s = read_sizes(from, argument);
  if (!s.words) s.words = words;
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
    to.set("model", llama_of(s, from, argument));
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
  const Names argument("hyperparameters.");
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
  const Names argument("hyperparameters.");
  return {{"model"},
          {argument("model_type"), argument("num_layers"), argument("hidden_width"),
           argument("num_heads"), argument("num_key_value_heads"),
           argument("hf_model_name_or_path"), argument("model_name_or_path"),
           argument("llama_intermediate_size"), argument("intermediate_size"),
           argument("vocab_size"), argument("num_local_experts"), argument("num_experts_per_tok")},
          [argument](Settings& from, JobDraft& to) { read_script_model(from, to, argument); },
          write_script_model,
          "a config.json beside it says the rest, and is taken first"};
}

Rule sized_script_model_rule() {
  static constexpr std::int64_t usual_words = 50432;  // model_utils/arguments.py
  const Names argument("");
  return {{"model"},
          {"model_type", "num_layers", "hidden_width", "num_heads", "num_key_value_heads",
           "llama_intermediate_size", "intermediate_size", "vocab_size"},
          [argument](Settings& from, JobDraft& to) {
            if (!from.has("hidden_width")) return;
            if (!from.has("vocab_size"))
              to.remark("vocab_size is left out: " + std::to_string(usual_words) +
                        ", the script's default");
            read_script_model(from, to, argument, usual_words);
          },
          nullptr,
          "of AWS's examples of FSDP; read only"};
}

}  // namespace meshwright::interop
