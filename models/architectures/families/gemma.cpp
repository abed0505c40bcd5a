// Gemma 1 to 3 have scaled embeddings, norms that multiply by 1 + their weight, and windows from
// Gemma 2 on.
#include <algorithm>
#include <cmath>

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Sets the factor of the embeddings. The MLP's matrices get no biases, whatever `mlp_bias` says.
void set_gemma_constants(Fields&, Model& model) {
  model.biases = false;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
}

// Reads the windows of Gemma 2. Its blocks alternate between a window and all earlier tokens, or
// all attend to all earlier tokens.
void read_gemma2_windows(Fields& fields, Model& model) {
  const std::string_view key = "layer_types";
  const auto types = is_given(fields, key) ? fields.required<std::vector<std::string>>(key)
                                           : std::vector<std::string>{"sliding_attention"};
  const bool any_window =
      std::ranges::any_of(types, [](const std::string& type) { return type != "full_attention"; });
  model.local_window = any_window ? number(fields, "sliding_window", 4096, 1) : 0;
}

// Writes the windows. A `sliding_window` is always written, because transformers makes the mask of
// a window even if no block has one.
void write_gemma_windows(const Model& model, json& config) {
  constexpr int usual_window = 4096;
  config["sliding_window"] = model.local_window > 0 ? model.local_window : usual_window;
}

// Reads the windows of Gemma 3. One block in `sliding_window_pattern` attends to all earlier
// tokens. The others attend to a window, and their rotary positions have a base of their own.
void read_gemma3_windows(Fields& fields, Model& model) {
  const std::string_view local = "rope_local_base_freq";
  model.local_rotary_base = is_given(fields, local) ? fields.required<double>(local) : 1e4;
  int pattern = number(fields, "sliding_window_pattern", 6, 1);
  const std::string_view key = "layer_types";
  if (is_given(fields, key)) {
    const auto types = fields.required<std::vector<std::string>>(key);
    const auto full = std::ranges::find(types, "full_attention");
    pattern = static_cast<int>(full - types.begin()) + 1;
  }
  model.local_window = pattern > 1 ? number(fields, "sliding_window", 4096, 1) : 0;
  model.local_period = pattern;
  model.global_place = pattern - 1;
}

void write_gemma3_windows(const Model& model, json& config) {
  config["rope_local_base_freq"] = model.local_rotary_base;
  write_gemma_windows(model, config);
}

constexpr ConfigKey gemma_constants{.read = set_gemma_constants};
constexpr ConfigKey score_width{
    .key = "query_pre_attn_scalar", .count = &Model::score_width, .usual = 256};
constexpr FixedKey is_causal{"use_bidirectional_attention", "false",
                             "Gemma that sees later tokens is not built"};

// The first files of Gemma call the tanh form "gelu".
constexpr ActivationWord gemma_words[] = {{"gelu_pytorch_tanh", Activation::gelu_tanh},
                                          {"gelu", Activation::gelu_tanh}};
constexpr ActivationWords gemma2_activations{{gemma_words, 1}, "gelu_pytorch_tanh"};

}  // namespace

constexpr ArchitectureInfo gemma = [] {
  ArchitectureInfo row = like_llama("gemma");
  row.traits.tied_embeddings = true;
  row.traits.activation = Activation::gelu_tanh;
  row.traits.one_plus_norms = true;
  row.traits.head_dim = 256;
  row.config = ConfigFile{.classes = {"GemmaForCausalLM"},
                          .needs_kv_heads = true,
                          .activation = {{gemma_words, "gelu_pytorch_tanh"}},
                          .fixed = {is_causal},
                          .early_keys = {head_dim},
                          .keys = {attention_bias, unwritten_mlp_bias, gemma_constants}};
  return row;
}();

constexpr ArchitectureInfo gemma2 = [] {
  ArchitectureInfo row = gemma;
  row.name = "gemma2";
  row.attention_out_norm = "post_attention_layernorm";
  row.norms.mlp = "pre_feedforward_layernorm";
  row.mlp_out_norm = "post_feedforward_layernorm";
  row.traits.local_period = 2;
  row.traits.global_place = 1;
  row.config =
      ConfigFile{.classes = {"Gemma2ForCausalLM"},
                 .needs_kv_heads = true,
                 .activation = {gemma2_activations, "hidden_activation"},
                 .fixed = {is_causal},
                 .early_keys = {head_dim},
                 .keys = {attention_bias,
                          unwritten_mlp_bias,
                          gemma_constants,
                          score_width,
                          {.key = "attn_logit_softcapping", .cap = &Model::score_cap, .usual = 50},
                          {.key = "final_logit_softcapping", .cap = &Model::logit_cap, .usual = 30},
                          {.read = read_gemma2_windows, .write = write_gemma_windows},
                          layer_types}};
  return row;
}();

constexpr ArchitectureInfo gemma3_text = [] {
  ArchitectureInfo row = with_head_norms(gemma2);
  row.name = "gemma3_text";
  row.traits.query_key_norm = QueryKeyNorm::heads;
  row.traits.rotary_base = 1e6;
  row.config = ConfigFile{.classes = {.generator = "Gemma3ForCausalLM", .body = "Gemma3Text"},
                          .needs_kv_heads = true,
                          .activation = {gemma2_activations, "hidden_activation"},
                          .fixed = {is_causal},
                          .early_keys = {head_dim},
                          .keys = {attention_bias,
                                   unwritten_mlp_bias,
                                   gemma_constants,
                                   score_width,
                                   {.key = "attn_logit_softcapping", .cap = &Model::score_cap},
                                   {.key = "final_logit_softcapping", .cap = &Model::logit_cap},
                                   {.read = read_gemma3_windows, .write = write_gemma3_windows},
                                   layer_types}};
  return row;
}();

// VaultGemma is Gemma 2 without norms of what the branches add.
constexpr ArchitectureInfo vaultgemma = [] {
  ArchitectureInfo row = gemma2;
  row.name = "vaultgemma";
  row.attention_out_norm = row.mlp_out_norm = "";
  row.config.classes = {.generator = "VaultGemmaForCausalLM", .has_classifier = false};
  return row;
}();

}  // namespace meshwright::architectures::families
