// BART has an encoder and a decoder of equal sizes, with norms after the residual sums.

#include "models/architectures/families/config_keys.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Checks that encoder and decoder of BART have the same sizes, because stacks of different sizes
// cannot be built, and reads whether there is dropout after the activation.
void read_bart(Fields& fields, Model& model) {
  for (const std::string_view key : {"layers", "attention_heads", "ffn_dim"}) {
    const std::string of_encoder = "encoder_" + std::string(key);
    const std::string of_decoder = "decoder_" + std::string(key);
    const int size = fields.required<int>(of_encoder), other = fields.required<int>(of_decoder);
    if (other != size)
      fields.fail(of_decoder, std::to_string(other) + " is not " + of_encoder + " " +
                                  std::to_string(size) + ": unlike stacks are not built; use " +
                                  std::to_string(size));
  }
  const std::string_view key = "activation_dropout";
  const double rate = is_given(fields, key) ? fields.required<double>(key) : 0;
  if (!(rate >= 0 && rate < 1)) fields.fail(key, "must be from 0 to below 1");
  model.activation_dropout = rate > 0;
}

void write_bart(const Model& model, json& config) {
  config["activation_dropout"] = model.activation_dropout ? 0.1 : 0.0;
  config["decoder_layers"] = model.layers;
  config["decoder_attention_heads"] = model.heads;
  config["decoder_ffn_dim"] = model.ffn;
}

}  // namespace

constexpr ArchitectureInfo bart = {
    .name = "bart",
    .embeddings = {"model.encoder.embed_tokens", "model.encoder.embed_tokens",
                   "model.encoder.embed_positions", "", "model.encoder.layernorm_embedding"},
    .attention = {"self_attn", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                  "self_attn.out_proj"},
    .mlp = {"mlp", "fc_gate", "fc1", "fc2"},
    .norms = {"self_attn_layer_norm", "final_layer_norm"},
    .encoder = "model.encoder",
    .decoder = "model.decoder",
    .shared_tokens = "model.shared",
    .cross_attention = "encoder_attn",
    .cross_norm = "encoder_attn_layer_norm",
    .block = "model.encoder.layers",
    .post_norm = true,
    .traits = {.family = Family::seq2seq,
               .learned_positions = true,
               .position_offset = 2,
               .decoder_start = 2},
    .config = {.classes = {"BartForConditionalGeneration", "BartForQuestionAnswering"},
               .sizes = {.hidden = "d_model",
                         .layers = "encoder_layers",
                         .heads = "encoder_attention_heads",
                         .kv_heads = "",
                         .ffn = "encoder_ffn_dim"},
               .epsilon = "",
               .activation = {older_gelu, "activation_function"},
               .fixed = {{"scale_embedding", "false", "embeddings that are scaled are not built"},
                         {"tie_word_embeddings", "true", "tables of their own are not built"}},
               .late_keys = {{.read = read_bart, .write = write_bart}, start_token}}};

}  // namespace meshwright::architectures::families
