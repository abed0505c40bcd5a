// Translates the arguments that give the model's sizes. The job holds a config.json of transformers
// for a model with the same parameters, or a model in the keys of the job file if there is none.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "models/core/error.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/megatron/more_decoders.h"
#include "tools/interop/megatron/newer_models.h"
#include "tools/interop/megatron/other_kinds.h"

namespace meshwright::interop {

namespace {

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

struct Sizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, groups = 0, ffn = 0, positions = 0;
};

std::int64_t needed(Settings& from, std::string_view name) {
  const std::optional<std::int64_t> value = from.count(name);
  if (!value) from.fail(name, "is missing; the model needs it");
  return *value;
}

Sizes read_sizes(Settings& from, bool gated) {
  Sizes s;
  s.layers = needed(from, "num-layers");
  s.hidden = needed(from, "hidden-size");
  s.heads = needed(from, "num-attention-heads");
  const std::int64_t groups = from.count("num-query-groups").value_or(1);
  s.groups = from.flag("group-query-attention").value_or(false) ? groups : s.heads;
  // By default, gated MLPs are 8/3 of the hidden size wide, rounded down to a multiple of 64, and
  // others 4 times the hidden size (megatron/training/arguments.py).
  const std::int64_t usual = gated ? s.hidden * 8 / 3 / 64 * 64 : 4 * s.hidden;
  s.ffn = from.count("ffn-hidden-size").value_or(usual);
  // FlagScale rounds the width up to a multiple of --multiple-of, as Llama's own code does.
  if (const auto unit = from.count("multiple-of")) {
    const double width =
        from.number("hidden-dim-multiplier").value_or(1) * static_cast<double>(s.hidden * 8 / 3);
    if (!(width >= 1 && width < 1e9))
      from.fail("hidden-dim-multiplier", "makes an MLP of no possible width");
    s.ffn = (static_cast<std::int64_t>(width) + *unit - 1) / *unit * *unit;
  }
  s.positions =
      from.whole("max-position-embeddings").value_or(from.whole("seq-length").value_or(0));
  return s;
}

void add_vocabulary(Settings& from, json& model) {
  const std::string tokenizer = from.word("tokenizer-type").value_or("");
  std::optional<std::int64_t> size = from.whole("vocab-size");
  // NullTokenizer adds one word for the end of a document.
  if (size && tokenizer == "NullTokenizer") size = *size + 1;
  // Without a tokenizer type, a file of a vocabulary together with one of merges is taken for
  // GPT-2's.
  const bool merges = tokenizer == "GPT2BPETokenizer" ||
                      (tokenizer.empty() && from.has("merge-file") && from.has("vocab-file"));
  if (!size && merges) size = 50257;
  if (!size && tokenizer == "Llama2Tokenizer") size = 32000;
  if (size) model["vocab_size"] = *size;
}

json gpt2_config(const Sizes& s, double epsilon, bool tied) {
  return {{"model_type", "gpt2"},
          {"n_embd", s.hidden},
          {"n_layer", s.layers},
          {"n_head", s.heads},
          {"n_inner", s.ffn},
          {"n_positions", s.positions},
          {"layer_norm_epsilon", epsilon},
          {"activation_function", "gelu_new"},
          {"tie_word_embeddings", tied}};
}

// Returns a BLOOM, which bigscience's fork trains with ALiBi. Throws InputError if the MLP is not 4
// times the hidden size wide.
json bloom_config(Settings& from, const Sizes& s, double epsilon, bool tied, JobDraft& to) {
  if (s.ffn != 4 * s.hidden)
    from.fail("ffn-hidden-size", std::to_string(s.ffn) +
                                     ": with ALiBi, 4 times the hidden size is "
                                     "built, as in BLOOM; use " +
                                     std::to_string(4 * s.hidden));
  if (!from.has("embed-layernorm"))
    to.remark(from.spelled("position-embedding-type") +
              " alibi: BLOOM is taken, which has one norm more, after the embedding");
  return {{"model_type", "bloom"}, {"hidden_size", s.hidden},       {"n_layer", s.layers},
          {"n_head", s.heads},     {"layer_norm_epsilon", epsilon}, {"tie_word_embeddings", tied}};
}

json sized_config(const char* type, const Sizes& s, bool tied) {
  return {{"model_type", type},
          {"hidden_size", s.hidden},
          {"num_hidden_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"intermediate_size", s.ffn},
          {"max_position_embeddings", s.positions},
          {"tie_word_embeddings", tied}};
}

void add_experts(Settings& from, std::int64_t experts, json& model) {
  model["model_type"] = "mixtral";
  model["num_local_experts"] = experts;
  model["num_experts_per_tok"] = from.whole("moe-router-topk").value_or(2);
  if (const auto width = from.count("moe-ffn-hidden-size")) model["intermediate_size"] = *width;
  check_plain_experts(from);
  if (!dense_layers(from, model["num_hidden_layers"]).empty())
    from.fail("moe-layer-freq",
              "layers without experts are built with --qk-layernorm or latent attention only");
  read_places(from, model);
  const double loss = from.number("moe-aux-loss-coeff").value_or(0);
  model["router_aux_loss_coef"] = loss;
  model["output_router_logits"] = loss > 0;
}

// Returns a model in the keys of the job file, for shapes that no config.json describes.
json described_model(const char* family, const Sizes& s, bool gated, bool tied) {
  json model = {{"family", family},   {"hidden", s.hidden},     {"layers", s.layers},
                {"heads", s.heads},   {"kv_heads", s.groups},   {"ffn", s.ffn},
                {"gated_ffn", gated}, {"tied_embeddings", tied}};
  if (s.positions > 0) model["positions"] = s.positions;
  return model;
}

json grouped_config(const char* type, const Sizes& s, bool tied, double rotary_base) {
  json model = sized_config(type, s, tied);
  model["num_key_value_heads"] = s.groups;
  model["rope_theta"] = rotary_base;
  return model;
}

// Returns whether the norms are RMSNorm. Forks spell the kinds of norms in other ways, such as
// rmsnorm. Throws InputError for any other kind.
bool reads_rms_norm(Settings& from) {
  const std::string word = from.word("normalization").value_or("LayerNorm");
  const std::string lower = in_lower_case(word);
  if (lower != "rmsnorm" && lower != "layernorm")
    from.word("normalization", {"LayerNorm", "RMSNorm"});  // throws
  return lower == "rmsnorm" || from.flag("use-rmsnorm").value_or(false);
}

std::string positions_of(Settings& from) {
  const bool rotates = from.flag("use-rotary-position-embeddings").value_or(false);
  const std::string word =
      from.word("position-embedding-type").value_or(rotates ? "rope" : "learned_absolute");
  if (word == "rotary") return "rope";
  return word == "absolute" ? "learned_absolute" : word;
}

// Returns the size of the sliding window in tokens, the first number of --window-size ("4096,0"),
// or 0 if a token sees all tokens before it.
std::int64_t read_window(Settings& from) {
  if (!from.has("window-size")) return 0;
  std::vector<std::int64_t> sides;
  if (const Setting* setting = from.read("window-size");
      setting != nullptr && setting->value.is_string()) {
    std::string text = setting->value;
    std::erase_if(
        text, [](char c) { return std::string_view("()[] ").find(c) != std::string_view::npos; });
    const std::size_t comma = text.find(',');
    const bool is_pair = comma != std::string::npos && comma > 0 && comma < 8 &&
                         text.find_first_not_of("0123456789,-") == std::string::npos &&
                         text[0] != '-';
    if (!is_pair) from.fail("window-size", "'" + text + "' is no pair such as 4096,0");
    sides = {std::stoll(text.substr(0, comma))};
  } else {
    sides = from.wholes("window-size");
  }
  if (sides.empty() || sides[0] < 1) return 0;
  return sides[0];
}

// Returns whether tasks/main.py tunes a BERT: of its tasks those of GLUE and RACE. Throws
// InputError for the others, which evaluate.
bool is_task_of_bert(Settings& from) {
  const auto task = from.word("task");
  if (!task) return false;
  for (const Setting& each : std::vector<Setting>(from.all()))
    if (each.name == "task" && from.is_open(each)) return true;
  for (const char* each : {"MNLI", "QQP", "RACE"})
    if (*task == each) return true;
  from.fail("task", "'" + *task + "' trains nothing; of the tasks, MNLI, QQP and RACE do");
}

// Reads a program that trains another model than a GPT. Returns true if it set the model.
bool read_other_program(Settings& from, JobDraft& to) {
  std::string name;
  for (const Setting& each : from.all())
    if (each.name == "program" && each.value.is_string()) name = each.value;
  name.erase(0, name.rfind('/') + 1);
  constexpr std::pair<std::string_view, std::string_view> others[] = {
      {"t5", "a T5"},
      {"mamba", "a Mamba"},
      {"retro", "a RETRO"},
      {"vlm", "a vision-language model"},
      {"ict", "an ICT"},
      {"vision", "a vision model"},
      {"vit", "a vision model"},
      {"hybrid", "a hybrid of Mamba and attention"},
      {"multimodal", "a vision-language model"},
      {"mimo", "a multi-modal model"},
      {"inpaint", "a vision model"},
      {"dino", "a vision model"},
      {"rwkv", "an RWKV"},
      {"llava", "a vision-language model"},
      {"_vl", "a vision-language model"},
      {"robot", "a model of robots"},
      {"pi0", "a model of robots"}};
  for (const auto& [part, title] : others)
    if ((name.starts_with("pretrain_") || name.starts_with("train_")) &&
        name.find(part) != std::string::npos)
      from.fail("program", "'" + name + "' trains " + std::string(title) +
                               ", which is not read from Megatron-LM's arguments; give its "
                               "config.json, or --set model=NAME (of the zoo, or the file that "
                               "`meshwright capture` writes)");
  if (name.find("bert") == std::string::npos && !is_task_of_bert(from)) return false;
  from.read("program");
  const Sizes s = read_sizes(from, false);
  json model = sized_config("bert", s, true);
  model["layer_norm_eps"] =
      from.number("norm-epsilon").value_or(from.number("layernorm-epsilon").value_or(1e-5));
  model["hidden_act"] = "gelu";
  model["type_vocab_size"] = 2;
  for (const char* other : {"swiglu", "disable-bias-linear", "group-query-attention", "num-experts",
                            "squared-relu", "multi-latent-attention"})
    if (from.has(other) && from.word(other).value_or("") != "false")
      from.fail(other, "is not built in a BERT, which " + name + " trains");
  add_vocabulary(from, model);
  if (const json set = to.value("model.vocab_size"); !set.is_null()) model["vocab_size"] = set;
  if (!model.contains("vocab_size")) to.ask("model.vocab_size", "");
  to.remark(
      "program " + name +
      ": a BERT of these sizes; Megatron-LM's normalises before its "
      "blocks, and predicts whether sentences follow each other, which costs next to nothing");
  to.set("model", std::move(model));
  return true;
}

// Throws InputError if a setting that changes the model is given and the chosen model does not have
// the change.
void check_what_acts(Settings& from, const json& model, std::int64_t window) {
  if (from.has("num-experts") && !model.contains("num_local_experts") &&
      !model.contains("n_routed_experts") && !model.contains("num_experts") &&
      from.wholes("num-experts") != std::vector<std::int64_t>{1} &&
      !from.wholes("num-experts").empty())
    from.fail("num-experts",
              "experts are built with --swiglu, --normalization RMSNorm and "
              "--position-embedding-type rope only");
  if (window > 0 && model.value("model_type", "") != "mistral")
    from.fail("window-size",
              "a window is built in models as Mistral's only (rope, RMSNorm, "
              "--swiglu, --disable-bias-linear)");
  if (from.flag("add-qkv-bias").value_or(false) && model.value("model_type", "") == "nemotron")
    from.fail("add-qkv-bias", "is not built beside --squared-relu");
}

void refuse(Settings& from, std::string_view name, const char* why) {
  if (from.flag(name).value_or(false)) from.fail(name, why);
}

void check_same(Settings& from, std::string_view name, std::int64_t value, const json& config,
                std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (config.contains(key) && config[key] != value)
      from.fail(name, std::to_string(value) + ", and " + key + " of the config.json is " +
                          config[key].dump() + "; give files of one model");
}

void read_sized_model(Settings& from, JobDraft& to) {
  // A config.json or --set describes the model completely, so it is kept. The arguments only serve
  // as a check: their number of layers and hidden size must be those of the config.json. A model
  // that is given by name or path is not compared.
  const json given = to.value("model");
  if (given.is_string() || (given.is_object() && given.contains("model_type"))) {
    for (const std::string& name : megatron_model_rule().settings) from.read(name);
    for (const char* name : {"layernorm-epsilon", "apply-layernorm-1p"}) from.read(name);
    if (!given.is_object()) return;
    if (const auto layers = from.whole("num-layers"))
      check_same(from, "num-layers", *layers, given, {"num_hidden_layers", "n_layer"});
    if (const auto width = from.whole("hidden-size"))
      check_same(from, "hidden-size", *width, given, {"hidden_size", "n_embd"});
    return;
  }
  if (!from.has("num-layers") && !from.has("hidden-size")) return;
  if (read_other_program(from, to)) return;
  refuse_other_kinds(from);
  const bool gated = from.flag("swiglu").value_or(false) || from.word("glu-activation").has_value();
  const bool rms = reads_rms_norm(from);
  const std::string positions = positions_of(from);
  const bool no_bias = from.flag("disable-bias-linear").value_or(false);
  const bool qkv_bias = from.flag("add-qkv-bias").value_or(false);
  const bool tied = !from.flag("untie-embeddings-and-output-weights").value_or(false);
  const double epsilon =
      from.number("norm-epsilon").value_or(from.number("layernorm-epsilon").value_or(1e-5));
  const double rotary_base = from.number("rotary-base").value_or(10000);
  const double rotary_share = from.number("rotary-percent").value_or(1);
  const std::optional<std::int64_t> head_width = from.whole("kv-channels");
  const Sizes s = read_sizes(from, gated);
  const bool squared = from.flag("squared-relu").value_or(false);
  // Norms with a weight of 1 + w cost the same as others. Nemotron has such norms.
  const bool shifted = from.flag("apply-layernorm-1p").value_or(false);
  const std::int64_t window = read_window(from);
  const bool is_llama = positions == "rope" && rms && gated && rotary_share == 1;
  for (const char* name : {"multi-latent-attention", "qk-layernorm"})
    if (!is_llama)
      refuse(from, name,
             "is built with --position-embedding-type rope, --normalization RMSNorm and --swiglu "
             "only");
  const bool grouped = s.groups != s.heads;
  if (!grouped && from.count("num-query-groups").value_or(s.heads) != s.heads)
    to.remark(from.spelled("num-query-groups") + " acts with " +
              from.spelled("group-query-attention") +
              " only, which is not given: every head has keys of its own");
  const bool is_plain = !rms && !gated && !no_bias && !squared && !shifted && window == 0;
  const bool is_rope = positions == "rope";
  const bool lacks_biases = !rms && !gated && no_bias && !qkv_bias && !squared && !shifted;
  json model;
  if (auto other = more_decoder(
          from, grouped_config("", s, tied, rotary_base),
          {is_rope, rms, gated, no_bias, qkv_bias, squared, rotary_share, epsilon, head_width})) {
    model = std::move(*other);
  } else if (positions == "learned_absolute" && (is_plain || lacks_biases) && window == 0 &&
             !grouped) {
    model = gpt2_config(s, epsilon, tied);
    if (no_bias)
      to.remark(from.spelled("disable-bias-linear") +
                ": GPT-2 has biases, which cost next to nothing");
  } else if (positions == "learned_absolute" && is_plain && s.groups == 1) {
    model = gpt2_config(s, epsilon, tied);
    model["model_type"] = "gpt_bigcode";
    model["activation_function"] = "gelu_pytorch_tanh";
    model["multi_query"] = true;
  } else if (positions == "alibi" && is_plain && !grouped) {
    model = bloom_config(from, s, epsilon, tied, to);
  } else if (is_rope && is_plain && !grouped) {
    model = sized_config("gpt_neox", s, tied);
    model["layer_norm_eps"] = epsilon;
    model["hidden_act"] = "gelu";
    model["rotary_pct"] = rotary_share;
    model["rotary_emb_base"] = rotary_base;
    model["use_parallel_residual"] = false;
  } else if (is_rope && is_plain && rotary_share == 1 && !head_width) {
    model = grouped_config("starcoder2", s, tied, rotary_base);
    model["norm_epsilon"] = epsilon;
    model["hidden_act"] = "gelu_pytorch_tanh";
    model["use_bias"] = true;
    model["sliding_window"] = nullptr;
  } else if (is_rope && !rms && gated && no_bias && !squared && !head_width && window == 0) {
    model = grouped_config("stablelm", s, tied, rotary_base);
    model["layer_norm_eps"] = epsilon;
    model["hidden_act"] = "silu";
    model["use_qkv_bias"] = qkv_bias;
    model["partial_rotary_factor"] = rotary_share;
  } else if (is_rope && !rms && !gated && no_bias && squared && window == 0) {
    model = grouped_config("nemotron", s, tied, rotary_base);
    model["norm_eps"] = epsilon;
    model["hidden_act"] = "relu2";
    model["partial_rotary_factor"] = rotary_share;
    if (head_width) model["head_dim"] = *head_width;
  } else if (positions == "learned_absolute" && !rms && gated && !no_bias && !grouped && !shifted) {
    model = described_model("gpt", s, true, tied);
  } else if (is_rope && rms && !gated && no_bias && !qkv_bias && !squared && !head_width &&
             rotary_share == 1 && window == 0) {
    model = described_model("llama", s, false, tied);
  } else if (is_llama) {
    model = sized_config("llama", s, tied);
    model["num_key_value_heads"] = s.groups;
    model["rms_norm_eps"] = epsilon;
    model["rope_theta"] = rotary_base;
    if (head_width) model["head_dim"] = *head_width;
    const std::int64_t experts = from.whole("num-experts").value_or(0);
    const bool latent = from.flag("multi-latent-attention").value_or(false);
    const bool norms = from.flag("qk-layernorm").value_or(false);
    if (latent || norms) {
      if (!no_bias || qkv_bias) model["attention_bias"] = true;
      latent ? read_latent_attention(from, experts, model) : read_qwen3(from, experts, model);
    } else if (experts > 0) {
      add_experts(from, experts, model);
    } else if (no_bias && qkv_bias) {
      model["model_type"] = "qwen2";
    } else if (no_bias && window > 0) {
      model["model_type"] = "mistral";
      model["sliding_window"] = window;
    } else {
      model["attention_bias"] = !no_bias;
      model["mlp_bias"] = !no_bias;
    }
  } else {
    from.fail(
        "position-embedding-type",
        "'" + positions + "' with " + (rms ? "RMSNorm" : "LayerNorm") +
            (gated ? ", --swiglu" : "") + (squared ? ", --squared-relu" : "") +
            (shifted ? ", --apply-layernorm-1p" : "") + (no_bias ? ", --disable-bias-linear" : "") +
            ": no such model is built; GPT-2's (learned_absolute), BLOOM's (alibi), GPT-NeoX's "
            "(rope) and Llama's (rope, RMSNorm, --swiglu) are");
  }
  check_what_acts(from, model, window);
  add_vocabulary(from, model);
  if (const json set = to.value("model.vocab_size"); !set.is_null()) model["vocab_size"] = set;
  if (!model.contains("vocab_size")) to.ask("model.vocab_size", "");
  if (model.contains("family") && model.contains("vocab_size")) {  // the job file's key
    model["vocab"] = model["vocab_size"];
    model.erase("vocab_size");
  }
  to.set("model", std::move(model));
}

void write_experts(const Model& m, Settings& to) {
  to.add("num-experts", m.experts);
  to.add("moe-router-topk", m.experts_per_token);
  to.add("moe-grouped-gemm", true);
  if (!m.expert_dropless) {  // a factor of 0: room for all tokens
    const double of_all = static_cast<double>(m.experts) / m.experts_per_token;
    to.add("moe-expert-capacity-factor",
           m.expert_capacity_factor > 0 ? m.expert_capacity_factor : of_all);
    to.add("moe-token-drop-policy", "position");
    to.add("moe-pad-expert-input-to-capacity", true);
  }
  if (m.router_aux_loss_coef > 0) {
    to.add("moe-router-load-balancing-type", "aux_loss");
    to.add("moe-aux-loss-coeff", m.router_aux_loss_coef);
  }
}

void write_sized_model(const JobValues& from, Settings& to) {
  const Model& m = from.model;
  to.add("num-layers", m.layers);
  to.add("hidden-size", m.hidden);
  to.add("num-attention-heads", m.heads);
  if (m.kv_heads != m.heads) {
    to.add("group-query-attention", true);
    to.add("num-query-groups", m.kv_heads);
  }
  if (m.head_dim > 0 && m.head_dim * m.heads != m.hidden && m.kv_lora_rank == 0)
    to.add("kv-channels", m.head_dim);
  to.add("ffn-hidden-size", m.dense_ffn > 0 ? m.dense_ffn : m.ffn);
  to.add("max-position-embeddings",
         m.positions > 0 ? m.positions : from.plan.training.sequence_length);
  to.add("normalization", m.rms_norm ? "RMSNorm" : "LayerNorm");
  to.add("norm-epsilon", m.norm_epsilon);
  to.add("position-embedding-type", m.learned_positions ? "learned_absolute" : "rope");
  if (!m.learned_positions) {
    // Megatron-LM's parser takes whole numbers only, so a whole number is written without a
    // fraction.
    if (m.rotary_base == std::floor(m.rotary_base))
      to.add("rotary-base", static_cast<std::int64_t>(m.rotary_base));
    else
      to.add("rotary-base", m.rotary_base);
    if (m.rotary_dim != m.head_dim && m.kv_lora_rank == 0)
      to.add("rotary-percent", static_cast<double>(m.rotary_dim) / m.head_dim);
  }
  if (m.gated_ffn) to.add("swiglu", true);
  if (!m.biases) to.add("disable-bias-linear", true);
  if (!m.tied_embeddings) to.add("untie-embeddings-and-output-weights", true);
  if (m.experts > 0) write_experts(m, to);
  write_newer_model(m, to);
  to.add("make-vocab-size-divisible-by", 128);
  // The export can run without data, on random tokens. For a real run, users replace these settings
  // by their tokenizer and data.
  to.add("tokenizer-type", "NullTokenizer");
  to.add("vocab-size", m.vocabulary - 1);
  to.add("mock-data", true);
}

}  // namespace

Rule megatron_model_rule() {
  Rule rule{{"model"},
            {"num-layers",
             "hidden-size",
             "num-attention-heads",
             "group-query-attention",
             "num-query-groups",
             "kv-channels",
             "ffn-hidden-size",
             "multiple-of",
             "hidden-dim-multiplier",
             "max-position-embeddings",
             "normalization",
             "norm-epsilon",
             "position-embedding-type",
             "use-rotary-position-embeddings",
             "use-rmsnorm",
             "rotary-base",
             "rotary-percent",
             "swiglu",
             "squared-relu",
             "window-size",
             "disable-bias-linear",
             "add-qkv-bias",
             "untie-embeddings-and-output-weights",
             "num-experts",
             "moe-router-topk",
             "moe-ffn-hidden-size",
             "moe-expert-capacity-factor",
             "moe-aux-loss-coeff",
             "tokenizer-type",
             "vocab-size"},
            read_sized_model,
            write_sized_model,
            "the model of transformers' that has the same parameters; the vocabulary is padded to "
            "128 x tensor by both"};
  for (std::string& name : settings_of_newer_models()) rule.settings.push_back(std::move(name));
  for (std::string& name : settings_of_more_decoders()) rule.settings.push_back(std::move(name));
  return rule;
}

}  // namespace meshwright::interop
