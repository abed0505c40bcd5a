// ModernBERT as a decoder: windows in two blocks of three, gated MLPs, no norm before the first
// block's attention, and a dense layer and a norm before the head's matrix.
#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// The head's activation is GELU, so no other word is read for the blocks.
constexpr ActivationWord erf_words[] = {{"gelu", Activation::gelu}};

// Reads the windows. `local_attention` is twice as wide as they are.
void read_modernbert_windows(Fields& fields, Model& model) {
  const int period = number(fields, "global_attn_every_n_layers", 3, 1);
  const int width = number(fields, "local_attention", 128, 2) / 2;
  read_windows_in_turn(fields, period, 0, width, model);
  model.local_rotary_base = positive(fields, "local_rope_theta", 1e4);
  model.rotary_base = positive(fields, "global_rope_theta", 1.6e5);
}

void write_modernbert_windows(const Model& model, json& config) {
  write_windows_in_turn(model, config);
  config["local_attention"] = 2 * model.local_window;
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", model.rotary_base}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", model.local_rotary_base}}}};
}

}  // namespace

constexpr ArchitectureInfo modernbert_decoder = [] {
  ArchitectureInfo row = like_llama("modernbert-decoder");
  row.embeddings = {"model.embeddings", "model.embeddings.tok_embeddings", "", "",
                    "model.embeddings.norm"};
  row.attention = {"attn", "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.Wo"};
  row.mlp = {"mlp", "mlp.gate", "mlp.up", "mlp.Wo"};
  row.published_gate_in = "mlp.Wi";
  row.norms = {"attn_norm", "mlp_norm", "model.final_norm"};
  row.head = {"decoder", "decoder", "lm_head.dense", "lm_head.norm", "decoder.bias"};
  row.biased_head = true;
  row.bare_first_block = true;
  row.traits.tied_embeddings = true;
  row.traits.rms_norm = row.traits.norm_bias = false;
  row.traits.activation = Activation::gelu;
  row.traits.norm_epsilon = 1e-5;
  row.traits.rotary_base = 1.6e5;
  row.config = ConfigFile{
      .classes = {.generator = "ModernBertDecoderForCausalLM", .has_classifier = false},
      .sizes = {.kv_heads = ""},
      .epsilon = "norm_eps",
      .activation = {{erf_words, ""}, "hidden_activation"},
      .rotary_base = "",
      .fixed = {{"decoder_bias", "true", "a head without biases is not built for it"},
                {"classifier_bias", "false", "biases of the head's dense layer are not built"},
                {"classifier_activation", "\"gelu\"", "other activations are not built"},
                {"pad_token_id", "0", "", true}},
      .keys = {attention_bias,
               mlp_bias,
               {.key = "norm_bias", .flags = {&Model::norm_bias}},
               {.read = read_modernbert_windows, .write = write_modernbert_windows}}};
  return row;
}();

}  // namespace meshwright::architectures::families
