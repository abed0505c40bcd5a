// T5 has an encoder and a decoder of equal sizes, with tables of relative positions.

#include "models/architectures/families/config_keys.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

constexpr ActivationWord t5_words[] = {{"relu", Activation::relu},
                                       {"gated-gelu", Activation::gelu_tanh}};

// Reads the keys that T5 has besides sizes. Version 1.1 has a gated MLP and, as published, a head
// that is not tied.
void read_t5(Fields& fields, Model& model) {
  read_head_width(fields, "d_kv", model);
  const auto number = [&](std::string_view key, int usual, int least) {
    const int value = is_given(fields, key) ? fields.required<int>(key) : usual;
    constexpr int most = 1 << 20;
    if (value < least || value > most)
      fields.fail(key, std::to_string(value) + " is out of range; use " + std::to_string(least) +
                           " to " + std::to_string(most));
    return value;
  };
  model.relative_buckets = number("relative_attention_num_buckets", model.relative_buckets, 4);
  model.relative_distance = number("relative_attention_max_distance", model.relative_distance,
                                   model.relative_buckets / 2 + 1);
  const std::string_view key = "feed_forward_proj";
  if (!is_given(fields, key)) return;
  choose_activation(fields, key, key, t5_words, model);
  model.gated_ffn = model.activation == Activation::gelu_tanh;
}

void write_t5(const Model& model, json& config) {
  config["d_kv"] = model.head_dim;
  config["num_decoder_layers"] = model.layers;
  config["relative_attention_num_buckets"] = model.relative_buckets;
  config["relative_attention_max_distance"] = model.relative_distance;
}

// Checks that encoder and decoder of T5 have the same number of layers, and that
// `scale_decoder_outputs`, a key of newer files, agrees with whether the head is tied.
void check_t5(Fields& fields, Model& model) {
  const std::string layers = std::to_string(model.layers);
  const std::string_view of_decoder = "num_decoder_layers";
  if (is_given(fields, of_decoder) && fields.required<int>(of_decoder) != model.layers)
    fields.fail(of_decoder, fields.raw(of_decoder).dump() + " is not num_layers " + layers +
                                ": unlike stacks are not built; use " + layers);
  const std::string_view key = "scale_decoder_outputs";
  if (!is_given(fields, key) || fields.required<bool>(key) == model.tied_embeddings) return;
  fields.fail(key, model.tied_embeddings
                       ? "false: a tied head without the scale is not built; set it to true, or "
                         "tie_word_embeddings to false"
                       : "true: the scale before a head of its own is not built; set it to false");
}

}  // namespace

constexpr ArchitectureInfo t5 = {
    .name = "t5",
    .embeddings = {"encoder.embed_tokens", "encoder.embed_tokens"},
    .attention = {"layer.0.SelfAttention", "layer.0.SelfAttention.q", "layer.0.SelfAttention.k",
                  "layer.0.SelfAttention.v", "layer.0.SelfAttention.o"},
    .mlp = {"layer.1.DenseReluDense", "layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi",
            "layer.1.DenseReluDense.wo"},
    .norms = {"layer.0.layer_norm", "layer.1.layer_norm", "encoder.final_layer_norm"},
    .encoder = "encoder",
    .decoder = "decoder",
    .shared_tokens = "shared",
    .cross_attention = "layer.1.EncDecAttention",
    .cross_norm = "layer.1.layer_norm",
    .mlp_layer = "layer.1",
    .decoder_mlp_layer = "layer.2",
    .block = "encoder.block",
    .gated_mlp_in = "layer.1.DenseReluDense.wi_1",
    .relative_bias = "layer.0.SelfAttention.relative_attention_bias",
    .scaled_scores = false,
    .scaled_tied_head = true,
    .traits = {.family = Family::seq2seq,
               .rms_norm = true,
               .biases = false,
               .attention_bias = false,
               .attention_out_bias = false,
               .activation = Activation::relu,
               .activation_dropout = true,
               .norm_epsilon = 1e-6,
               .head_dim = 64,
               .relative_buckets = 32,
               .relative_distance = 128},
    .config = {.classes = {"T5ForConditionalGeneration", "T5ForQuestionAnswering"},
               .sizes = {"d_model", "num_layers", "num_heads", "", "d_ff", "vocab_size", ""},
               .epsilon = "layer_norm_epsilon",
               .activation = {{t5_words, "gated-gelu"}, "feed_forward_proj"},
               .fixed = {{"pad_token_id", "0", "", true}},
               .early_keys = {{.read = read_t5, .write = write_t5}},
               .late_keys = {start_token, {.read = check_t5}}}};

}  // namespace meshwright::architectures::families
