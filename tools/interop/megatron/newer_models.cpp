#include "tools/interop/megatron/newer_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "models/architectures/huggingface_config.h"

namespace meshwright::interop {

namespace {

// A whole number that Megatron-LM's `setting` and the `key` of DeepSeek's config.json both give,
// with Megatron-LM's default (megatron/training/arguments.py, _add_mla_args, _add_moe_args).
struct Same {
  const char* setting;
  const char* key;
  double usual;
};
constexpr Same latent_numbers[] = {{"kv-lora-rank", "kv_lora_rank", 32},
                                   {"qk-head-dim", "qk_nope_head_dim", 128},
                                   {"qk-pos-emb-head-dim", "qk_rope_head_dim", 64},
                                   {"v-head-dim", "v_head_dim", 128},
                                   {"moe-router-num-groups", "n_group", 1},
                                   {"moe-router-group-topk", "topk_group", 1}};
constexpr const char *scaling = "moe-router-topk-scaling-factor", *frequency = "moe-layer-freq",
                     *of_all_tokens = "moe-shared-expert-intermediate-size",
                     *score_function = "moe-router-score-function",
                     *late = "moe-router-pre-softmax";

// Reads a pattern of layers: a sum of lists and repeated lists of 0 (dense) and 1 (experts), as in
// "([0]*3+[1]*58)".
class LayerPattern {
 public:
  explicit LayerPattern(std::string_view text) : rest_(text) {}
  // Returns a number for each layer, or nothing if the text is no such pattern or has more than
  // 65536 layers. Does not check that the numbers are 0 or 1.
  std::optional<std::vector<int>> read() {
    std::vector<int> all = sum();
    skip();
    if (wrong_ || !rest_.empty()) return {};
    return all;
  }

 private:
  static constexpr std::size_t most = 1 << 16;

  void skip() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool take(char sign) {
    skip();
    if (rest_.empty() || rest_.front() != sign) return false;
    rest_.remove_prefix(1);
    return true;
  }
  int number() {
    skip();
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    wrong_ = wrong_ || error != std::errc() || value < 0;
    rest_.remove_prefix(end - rest_.data());
    return value;
  }
  std::vector<int> sum() {
    std::vector<int> all = product();
    while (!wrong_ && take('+')) {
      const std::vector<int> more = product();
      all.insert(all.end(), more.begin(), more.end());
      wrong_ = wrong_ || all.size() > most;
    }
    return all;
  }
  std::vector<int> product() {
    std::vector<int> list = part();
    while (!wrong_ && take('*')) {
      const auto times = static_cast<std::size_t>(number());
      if (wrong_ || times * list.size() > most) wrong_ = true;
      if (wrong_) return {};
      std::vector<int> all;
      for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), list.begin(), list.end());
      list = std::move(all);
    }
    return list;
  }
  std::vector<int> part() {
    std::vector<int> list;
    if (++depth_ > 16) wrong_ = true;
    if (!wrong_ && take('(')) {
      list = sum();
      wrong_ = wrong_ || !take(')');
    } else if (!wrong_ && take('[')) {
      do list.push_back(number());
      while (!wrong_ && take(','));
      wrong_ = wrong_ || !take(']');
    } else {
      wrong_ = true;
    }
    --depth_;
    return list;
  }

  std::string_view rest_;
  bool wrong_ = false;
  int depth_ = 0;
};

std::string pattern_of(const Model& model) {
  std::string text;
  for (int first = 0; first < model.layers;) {
    int end = first;
    while (end < model.layers && model.has_experts(end) == model.has_experts(first)) ++end;
    text += fmt::format("{}[{}]*{}", first == 0 ? "(" : "+", model.has_experts(first) ? 1 : 0,
                        end - first);
    first = end;
  }
  return text + ")";
}

void read_experts(Settings& from, std::int64_t experts, const char* key, json& model) {
  model[key] = experts;
  model["num_experts_per_tok"] = from.whole("moe-router-topk").value_or(2);
  model["moe_intermediate_size"] =
      from.count("moe-ffn-hidden-size").value_or(model["intermediate_size"]);
  read_places(from, model);
}

bool is_sigmoid(Settings& from) {
  return from.word(score_function, {"softmax", "sigmoid"}).value_or("softmax") == "sigmoid";
}

bool is_of_qwen3(const Model& m) {
  return m.architecture == Architecture::qwen3 || m.architecture == Architecture::qwen3_moe;
}

}  // namespace

std::vector<int> dense_layers(Settings& from, std::int64_t layers) {
  const Setting* setting = from.read(frequency);
  std::vector<int> dense;
  constexpr std::int64_t most = 1 << 16;  // longer models have no list
  if (setting == nullptr || layers > most) return dense;
  const auto fail = [&] {
    from.fail(frequency, fmt::format("{} is neither a number n, so that every n-th layer has "
                                     "experts, nor a list of 0 and 1 for {} layers",
                                     setting->value.dump(), layers));
  };
  std::vector<int> has(layers, 0);
  const json& value = setting->value;
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  int every = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), every);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (every < 1) fail();
    for (std::size_t i = 0; i < has.size(); i += static_cast<std::size_t>(every)) has[i] = 1;
  } else {
    const std::optional<std::vector<int>> pattern = LayerPattern(text).read();
    if (!pattern || std::ssize(*pattern) != layers ||
        std::ranges::any_of(*pattern, [](int each) { return each > 1; }))
      fail();
    has = *pattern;
  }
  for (std::size_t i = 0; i < has.size(); ++i)
    if (has[i] == 0) dense.push_back(static_cast<int>(i));
  return dense;
}

void read_places(Settings& from, json& model) {
  if (const auto factor = from.number("moe-expert-capacity-factor"))
    model["expert_capacity_factor"] = *factor;
  else
    model["expert_dropless"] = true;
}

void check_plain_experts(Settings& from) {
  if (from.whole(of_all_tokens).value_or(0) > 0)
    from.fail(of_all_tokens, "shared experts are built with latent attention only");
  if (is_sigmoid(from))
    from.fail(score_function, "sigmoid scores are built with latent attention only");
}

void read_qwen3(Settings& from, std::int64_t experts, json& model) {
  if (model.contains("attention_bias"))
    from.fail("qk-layernorm",
              "norms of queries and keys are built in models without biases (Qwen3); give "
              "--disable-bias-linear");
  check_plain_experts(from);
  model["model_type"] = experts > 0 ? "qwen3_moe" : "qwen3";
  model["attention_bias"] = false;
  if (experts == 0) return;
  read_experts(from, experts, "num_experts", model);
  // Without pre-softmax, Megatron-LM takes the softmax of the chosen scores only. The result is the
  // softmax of all scores, divided by its sum over the chosen ones.
  model["norm_topk_prob"] = !from.flag(late).value_or(false);
  model["decoder_sparse_step"] = 1;
  model["mlp_only_layers"] = dense_layers(from, model["num_hidden_layers"]);
  const double loss = from.number("moe-aux-loss-coeff").value_or(0);
  model["router_aux_loss_coef"] = loss;
  model["output_router_logits"] = loss > 0;
}

void read_latent_attention(Settings& from, std::int64_t experts, json& model) {
  constexpr const char* latent = "multi-latent-attention";
  if (model.contains("attention_bias"))
    from.fail(latent, "is built in models without biases; give --disable-bias-linear");
  if (!from.flag("qk-layernorm").value_or(false))
    from.fail(latent, "is built with norms of the latent vectors; give --qk-layernorm");
  if (experts == 0) from.fail(latent, "is built in models with experts (DeepSeek's) only");
  const bool sigmoid = is_sigmoid(from);
  if (!sigmoid && !from.flag(late).value_or(false))
    from.fail(score_function,
              fmt::format("'softmax' of the chosen experts alone is not built with latent "
                          "attention; give --{}, or sigmoid",
                          late));
  model["model_type"] = sigmoid ? "deepseek_v3" : "deepseek_v2";
  model["num_key_value_heads"] = model["num_attention_heads"];
  read_experts(from, experts, "n_routed_experts", model);
  model["norm_topk_prob"] = sigmoid;
  from.read("moe-router-enable-expert-bias");  // DeepSeek-V3 always has these biases
  const std::optional<std::int64_t> rank = from.whole("q-lora-rank");
  model["q_lora_rank"] = rank ? json(*rank) : json(nullptr);
  for (const Same& each : latent_numbers)
    model[each.key] = from.whole(each.setting).value_or(static_cast<std::int64_t>(each.usual));
  if (!sigmoid) model["topk_method"] = model["n_group"] == 1 ? "greedy" : "group_limited_greedy";
  model["routed_scaling_factor"] = from.number(scaling).value_or(1);
  const std::int64_t width = model["moe_intermediate_size"],
                     of_shared = from.whole(of_all_tokens).value_or(0);
  if (width == 0) from.fail("moe-ffn-hidden-size", "the width of an expert is 0; give one above 0");
  if (of_shared % width != 0)
    from.fail(of_all_tokens,
              fmt::format("{} is no multiple of {}, the width of an expert; shared experts are "
                          "whole ones",
                          of_shared, width));
  model["n_shared_experts"] = of_shared / width;
  const std::vector<int> dense = dense_layers(from, model["num_hidden_layers"]);
  if (!dense.empty() && dense.back() != static_cast<int>(dense.size()) - 1)
    from.fail(frequency, "with latent attention, layers without experts must come first");
  model["first_k_dense_replace"] = dense.size();
  const double factor = from.number("rotary-scaling-factor").value_or(1);
  const double of_scores = from.number("mscale-all-dim").value_or(0);
  const double of_angles = from.number("mscale").value_or(1);
  const bool scaled = from.word("rope-type", {"rope", "yarn"}).value_or("yarn") == "yarn";
  if (factor > 1 && scaled)  // the other numbers: MLATransformerConfig
    model["rope_scaling"] = {{"type", "yarn"},
                             {"factor", factor},
                             {"beta_fast", 32},
                             {"beta_slow", 1},
                             {"mscale", of_angles},
                             {"mscale_all_dim", of_scores},
                             {"original_max_position_embeddings", 4096}};
}

void write_newer_model(const Model& m, Settings& to) {
  if (is_of_qwen3(m)) to.add("qk-layernorm", true);
  if (m.experts > 0 && m.architecture != Architecture::mixtral) {
    to.add("moe-ffn-hidden-size", m.ffn);
    if (!m.dense_blocks.empty()) to.add(frequency, pattern_of(m));
    if (m.expert_weights_of_all) to.add(late, true);
  }
  if (m.kv_lora_rank == 0) return;
  to.add("multi-latent-attention", true);
  to.add("qk-layernorm", true);
  const json config = huggingface_config(m);
  if (m.q_lora_rank > 0) to.add("q-lora-rank", m.q_lora_rank);
  for (const Same& each : latent_numbers)
    if (config[each.key] != each.usual) to.add(each.setting, config[each.key]);
  if (m.shared_ffn > 0) to.add(of_all_tokens, m.shared_ffn);
  if (m.expert_weight_scale != 1) to.add(scaling, m.expert_weight_scale);
  if (m.sigmoid_scores) {
    to.add(score_function, "sigmoid");
    to.add("moe-router-enable-expert-bias", true);
    to.add("moe-router-bias-update-rate", 0);  // training.router_bias_update_rate is not written
  }
  if (m.rotary_yarn && config.contains("rope_scaling")) {
    to.add("rotary-scaling-factor", m.rotary_factor);
    to.add("mscale", config["rope_scaling"]["mscale"]);
    to.add("mscale-all-dim", config["rope_scaling"]["mscale_all_dim"]);
  } else {
    to.add("rope-type", "rope");
  }
}

std::vector<std::string> settings_of_newer_models() {
  std::vector<std::string> names = {"q-lora-rank",
                                    frequency,
                                    of_all_tokens,
                                    scaling,
                                    score_function,
                                    late,
                                    "multi-latent-attention",
                                    "qk-layernorm",
                                    "moe-router-enable-expert-bias",
                                    "rotary-scaling-factor",
                                    "mscale",
                                    "mscale-all-dim",
                                    "rope-type"};
  for (const Same& each : latent_numbers) names.emplace_back(each.setting);
  return names;
}

}  // namespace meshwright::interop
