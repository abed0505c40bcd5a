// Reads a config.json of Hugging Face. Most of its keys are about generating text or about the
// origin of a file, and are ignored. A key is rejected if its value would need a model that cannot
// be built.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "models/architectures/architecture.h"
#include "models/architectures/huggingface_decoders.h"
#include "models/architectures/huggingface_head.h"
#include "models/architectures/huggingface_rotary.h"
#include "models/core/error.h"

namespace meshwright {

namespace {

// Sizes that must be given, because their default depends on the model type more than a reader
// would expect.
enum class Needed : std::uint8_t { nothing, ffn, ffn_and_kv_heads };

struct ModelType {
  std::string_view name;
  Architecture architecture;
  SizeKeys sizes;
  std::string_view epsilon, activation;
  Needed needed = Needed::ffn;
  void (*read)(Fields&, Model&) = nullptr;  // reads the keys of this type only, after the sizes
};

constexpr SizeKeys encoder_sizes = {
    "hidden_size",       "num_hidden_layers", "num_attention_heads",    "",
    "intermediate_size", "vocab_size",        "max_position_embeddings"};

constexpr SizeKeys llama_sizes = {
    "hidden_size",       "num_hidden_layers", "num_attention_heads",    "num_key_value_heads",
    "intermediate_size", "vocab_size",        "max_position_embeddings"};

constexpr SizeKeys qwen3_moe_sizes = {
    "hidden_size",           "num_hidden_layers", "num_attention_heads",    "num_key_value_heads",
    "moe_intermediate_size", "vocab_size",        "max_position_embeddings"};

constexpr ModelType model_types[] = {
    {"gpt2",
     Architecture::gpt2,
     {"n_embd", "n_layer", "n_head", "", "n_inner", "vocab_size", "n_positions"},
     "layer_norm_epsilon",
     "activation_function",
     Needed::nothing},
    {"gpt_neox",
     Architecture::gpt_neox,
     {"hidden_size", "num_hidden_layers", "num_attention_heads", "", "intermediate_size",
      "vocab_size", "max_position_embeddings"},
     "layer_norm_eps",
     "hidden_act"},
    {"gpt_neo",
     Architecture::gpt_neo,
     {"hidden_size", "num_layers", "num_heads", "", "intermediate_size", "vocab_size",
      "max_position_embeddings"},
     "layer_norm_epsilon",
     "activation_function",
     Needed::nothing},
    {"gptj",
     Architecture::gptj,
     {"n_embd", "n_layer", "n_head", "", "n_inner", "vocab_size", "n_positions"},
     "layer_norm_epsilon",
     "activation_function",
     Needed::nothing},
    {"llama", Architecture::llama, llama_sizes, "rms_norm_eps", "hidden_act", Needed::ffn,
     decoders::read_biases},
    {"mistral", Architecture::llama, llama_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_mistral},
    {"mixtral", Architecture::mixtral, llama_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads},
    {"qwen2", Architecture::qwen2, llama_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_qwen2},
    {"qwen3", Architecture::qwen3, llama_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_qwen3},
    {"qwen3_moe", Architecture::qwen3_moe, qwen3_moe_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_qwen3_moe},
    {"qwen2_moe", Architecture::qwen2_moe, qwen3_moe_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_qwen2_moe},
    {"olmoe", Architecture::olmoe, llama_sizes, "rms_norm_eps", "hidden_act", Needed::ffn,
     decoders::read_olmoe},
    {"granitemoe", Architecture::granitemoe, llama_sizes, "rms_norm_eps", "hidden_act", Needed::ffn,
     decoders::read_granitemoe},
    {"gpt_oss", Architecture::gpt_oss, llama_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_gpt_oss},
    {"glm4_moe", Architecture::glm4_moe, qwen3_moe_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_glm4_moe},
    {"llama4_text", Architecture::llama4_text, llama_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_llama4},
    {"llama4", Architecture::llama4_text, llama_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_llama4},
    {"deepseek_v2", Architecture::deepseek_v2, qwen3_moe_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn, decoders::read_deepseek_v2},
    {"deepseek_v3", Architecture::deepseek_v3, qwen3_moe_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn, decoders::read_deepseek_v3},
    {"starcoder2", Architecture::starcoder2, llama_sizes, "norm_epsilon", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_starcoder2},
    {"stablelm", Architecture::stablelm, llama_sizes, "layer_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_stablelm},
    {"opt",
     Architecture::opt,
     {"hidden_size", "num_hidden_layers", "num_attention_heads", "", "ffn_dim", "vocab_size",
      "max_position_embeddings"},
     "",
     "activation_function",
     Needed::ffn,
     decoders::read_opt},
    {"phi3", Architecture::phi3, llama_sizes, "rms_norm_eps", "hidden_act", Needed::ffn,
     decoders::read_window},
    {"gemma", Architecture::gemma, llama_sizes, "rms_norm_eps", "hidden_act",
     Needed::ffn_and_kv_heads, decoders::read_gemma},
    {"gemma2", Architecture::gemma2, llama_sizes, "rms_norm_eps", "hidden_activation",
     Needed::ffn_and_kv_heads, decoders::read_gemma2},
    {"gemma3_text", Architecture::gemma3_text, llama_sizes, "rms_norm_eps", "hidden_activation",
     Needed::ffn_and_kv_heads, decoders::read_gemma3},
    {"olmo2", Architecture::olmo2, llama_sizes, "rms_norm_eps", "hidden_act", Needed::ffn,
     decoders::read_biases},
    {"nemotron", Architecture::nemotron, llama_sizes, "norm_eps", "hidden_act", Needed::ffn,
     decoders::read_biases},
    {"falcon",
     Architecture::falcon,
     {"hidden_size", "num_hidden_layers", "num_attention_heads", "", "ffn_hidden_size",
      "vocab_size", "max_position_embeddings"},
     "layer_norm_epsilon",
     "activation",
     Needed::nothing,
     decoders::read_falcon},
    {"gpt_bigcode",
     Architecture::gpt_bigcode,
     {"n_embd", "n_layer", "n_head", "", "n_inner", "vocab_size", "n_positions"},
     "layer_norm_epsilon",
     "activation_function",
     Needed::nothing,
     decoders::read_gpt_bigcode},
    {"cohere", Architecture::cohere, llama_sizes, "layer_norm_eps", "hidden_act", Needed::ffn,
     decoders::read_cohere},
    {"internlm2", Architecture::internlm2, llama_sizes, "rms_norm_eps", "hidden_act", Needed::ffn,
     decoders::read_internlm2},
    {"bert", Architecture::bert, encoder_sizes, "layer_norm_eps", "hidden_act"},
    {"roberta", Architecture::roberta, encoder_sizes, "layer_norm_eps", "hidden_act"},
    {"camembert", Architecture::roberta, encoder_sizes, "layer_norm_eps", "hidden_act"},
    {"xlm-roberta", Architecture::roberta, encoder_sizes, "layer_norm_eps", "hidden_act"},
    {"distilbert",
     Architecture::distilbert,
     {"dim", "n_layers", "n_heads", "", "hidden_dim", "vocab_size", "max_position_embeddings"},
     "",
     "activation"},
    {"albert", Architecture::albert, encoder_sizes, "layer_norm_eps", "hidden_act"},
    {"bart",
     Architecture::bart,
     {"d_model", "encoder_layers", "encoder_attention_heads", "", "encoder_ffn_dim", "vocab_size",
      "max_position_embeddings"},
     "",
     "activation_function"},
    {"t5",
     Architecture::t5,
     {"d_model", "num_layers", "num_heads", "", "d_ff", "vocab_size", ""},
     "layer_norm_epsilon",
     ""},
    {"vit",
     Architecture::vit,
     {"hidden_size", "num_hidden_layers", "num_attention_heads", "", "intermediate_size", "", ""},
     "layer_norm_eps",
     "hidden_act"},
};

// A key for which only one value can be built, by model type or architecture. Absent or null means
// that value, unless `needed`.
struct Fixed {
  std::string_view model_type, key, value, why;
  bool needed = false;
};

constexpr Fixed fixed[] = {
    {"gpt2", "scale_attn_weights", "true", "scores are always divided by sqrt(head width)"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false", "scaling by layer is not built"},
    {"gpt2", "add_cross_attention", "false", "cross-attention is not built"},
    {"gptj", "scale_attn_weights", "true", "scores are always divided by sqrt(head width)"},
    {"mixtral", "sliding_window", "null", "attention over a sliding window is not built"},
    {"mixtral", "router_jitter_noise", "0.0", "noise on the router's inputs is not built"},
    {"bert", "position_embedding_type", "\"absolute\"", "relative positions are not built"},
    {"bert", "is_decoder", "false", "BERT as a decoder is not built"},
    {"bert", "add_cross_attention", "false", "cross-attention is not built"},
    {"roberta", "position_embedding_type", "\"absolute\"", "relative positions are not built"},
    {"roberta", "is_decoder", "false", "RoBERTa as a decoder is not built"},
    {"roberta", "add_cross_attention", "false", "cross-attention is not built"},
    {"albert", "num_hidden_groups", "1", "several groups of layers are not built"},
    {"albert", "inner_group_num", "1", "groups of several layers are not built"},
    {"albert", "position_embedding_type", "\"absolute\"", "relative positions are not built"},
    {"bart", "scale_embedding", "false", "embeddings that are scaled are not built"},
    {"bart", "tie_word_embeddings", "true", "tables of their own are not built"},
    {"vit", "qkv_bias", "true", "attention without biases is not built"},
    {"stablelm", "qk_layernorm", "false", "norms of heads with weights of their own are not built"},
    {"opt", "do_layer_norm_before", "true", "norms after the residual sum are not built for OPT"},
    {"opt", "_remove_final_layer_norm", "false", "OPT without its last norm is not built"},
    {"opt", "enable_bias", "true", "OPT without biases is not built"},
    {"opt", "layer_norm_elementwise_affine", "true", "norms without weights are not built"},
    {"gemma", "use_bidirectional_attention", "false", "Gemma that sees later tokens is not built"},
    {"gemma2", "use_bidirectional_attention", "false", "Gemma that sees later tokens is not built"},
    {"gemma3_text", "use_bidirectional_attention", "false",
     "Gemma that sees later tokens is not built"},
    {"gpt_oss", "swiglu_alpha", "1.702", "another gain of the sigmoid is not built"},
    {"falcon", "alibi", "false", "ALiBi that is added before scores are scaled is not built"},
    {"qwen3_moe", "use_sliding_window", "false", "windows are not built for it"},
    {"qwen2_moe", "use_sliding_window", "false", "windows are not built for it"},
    {"deepseek_v2", "norm_topk_prob", "false",
     "weights that are renormalised are not built for it"},
    {"deepseek_v2", "mlp_bias", "false", "MLPs with biases are not built for it"},
    {"olmoe", "clip_qkv", "null", "queries, keys and values that are clipped are not built"},
    {"gpt_bigcode", "scale_attn_weights", "true", "scores are always divided by sqrt(head width)"},
    {"gpt_bigcode", "add_cross_attention", "false", "cross-attention is not built"},
    {"cohere", "use_qk_norm", "false", "norms of heads with weights of their own are not built"},
    {"distilbert", "sinusoidal_pos_embds", "false", "positions that are not trained are not built"},
};

void check_fixed(Fields& fields, const ModelType& type) {
  for (const Fixed& row : fixed) {
    if (row.model_type != type.name && row.model_type != name_of(type.architecture)) continue;
    const bool given = fields.has(row.key);
    if (!given && !row.needed) continue;
    const std::string value = given ? fields.raw(row.key).dump() : "absent";
    if (value == row.value || (value == "null" && !row.needed)) continue;
    fields.fail(row.key,
                value + ": " + std::string(row.why) + "; set it to " + std::string(row.value));
  }
}

void check_given(Fields& fields, const ModelType& type) {
  if (type.needed != Needed::nothing && !is_given(fields, type.sizes.ffn))
    fields.fail(type.sizes.ffn, "missing; it is required (an integer)");
  if (type.needed == Needed::ffn_and_kv_heads && !is_given(fields, type.sizes.kv_heads))
    fields.fail(type.sizes.kv_heads, "missing; it is required (an integer)");
}

// Returns the words for the activations that can be built for the model.
std::vector<std::string> activations_of(const Model& model) {
  if (model.architecture == Architecture::gemma) return {"gelu_pytorch_tanh", "gelu"};
  if (model.architecture == Architecture::gemma2 || model.architecture == Architecture::gemma3_text)
    return {"gelu_pytorch_tanh"};
  if (model.gated_ffn) return {"silu", "swish"};
  if (model.squared_relu) return {"relu2"};
  std::vector<std::string> words = {"gelu", "gelu_python", "gelu_new", "gelu_fast",
                                    "gelu_pytorch_tanh"};
  if (model.architecture == Architecture::opt) words.emplace_back("relu");
  return words;
}

void read_activation(Fields& fields, std::string_view key, Model& model) {
  if (!is_given(fields, key)) return;
  const auto word = fields.required<std::string>(key);
  choose(fields, key, "activation", word, activations_of(model));
  if (model.squared_relu) return;
  model.relu = word == "relu";
  const bool is_silu = model.gated_ffn && !model.gated_gelu;
  // The first files of Gemma call the tanh form "gelu".
  model.gelu_tanh = !is_silu && !model.relu &&
                    (model.gated_gelu || word.ends_with("new") || word.ends_with("fast") ||
                     word.ends_with("tanh"));
}

// Reads the width of a head if the key is given. It need not be the hidden size divided by the
// heads.
void read_head_dim(Fields& fields, std::string_view key, Model& model) {
  if (!is_given(fields, key)) return;
  model.head_dim = fields.required<int>(key);
  constexpr int most = 1 << 12;
  if (model.head_dim < 1 || model.head_dim > most)
    fields.fail(
        key, std::to_string(model.head_dim) + " is out of range; use 1 to " + std::to_string(most));
}

// Reads the keys that T5 has besides sizes. Version 1.1 has a gated MLP and, as published, a head
// that is not tied.
void read_t5(Fields& fields, Model& model) {
  model.head_dim = 64;
  read_head_dim(fields, "d_kv", model);
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
  if (!is_given(fields, "feed_forward_proj")) return;
  const auto word = fields.required<std::string>("feed_forward_proj");
  model.gated_ffn = model.gated_gelu = model.gelu_tanh =
      choose(fields, "feed_forward_proj", "feed_forward_proj", word, {"relu", "gated-gelu"}) == 1;
  model.relu = !model.gated_gelu;
}

// Reads the keys that Mixtral has besides sizes. It has a balancing loss only if the model returns
// its router's logits.
void read_mixtral(Fields& fields, Model& model) {
  model.router_aux_loss_coef = 0.001;
  read_experts(fields, {"num_local_experts", "num_experts_per_tok"}, model);
  if (!is_given(fields, "output_router_logits") || !fields.required<bool>("output_router_logits"))
    model.router_aux_loss_coef = 0;
}

// Reads the keys that BERT and its relatives have besides sizes. RoBERTa's table of positions has
// rows for the padding token and the tokens before it, so positions start after these rows.
void read_bert(Fields& fields, Model& model) {
  if (model.architecture == Architecture::distilbert) return;
  model.token_types = 2;
  if (is_given(fields, "type_vocab_size"))
    model.token_types = fields.required<int>("type_vocab_size");
  if (model.token_types < 1 || model.token_types > 1 << 20)
    fields.fail("type_vocab_size", "must be 1 or more");
  if (model.position_offset == 0) return;
  if (is_given(fields, "pad_token_id"))
    model.position_offset = fields.required<int>("pad_token_id") + 1;
  model.positions -= model.position_offset;
  if (model.position_offset < 0 || model.positions < 1)
    fields.fail("max_position_embeddings",
                "no position is left after the padding token's; use more positions");
}

// Reads GPT-Neo's windows. Its blocks attend to all earlier tokens (global) or to a window of them
// (local). `attention_types` gives the kinds as [[["global", "local"], times]], and
// `attention_layers` block by block. Only alternating kinds, or global everywhere, can be built.
void read_gpt_neo(Fields& fields, Model& model) {
  std::string_view key = "attention_layers";
  std::vector<std::string> layers;
  if (is_given(fields, key)) {
    layers = fields.required<std::vector<std::string>>(key);
  } else if (is_given(fields, key = "attention_types")) {
    const nlohmann::json& rows = fields.raw(key);
    for (const auto& row : rows) {
      if (!rows.is_array() || !row.is_array() || row.size() != 2 || !row[0].is_array() ||
          !row[1].is_number_integer() || row[1] < 0 || row[1] > model.layers)
        fields.fail(key, "must be a list of [[kinds of blocks], times]");
      for (int time = 0; time < row[1]; ++time)
        for (const auto& kind : row[0]) layers.push_back(kind.is_string() ? kind : "?");
    }
  }
  if (layers.empty())
    for (int layer = 0; layer < model.layers; ++layer)
      layers.emplace_back(layer % 2 == 0 ? "global" : "local");
  if (static_cast<int>(layers.size()) != model.layers)
    fields.fail(key, "names " + std::to_string(layers.size()) + " blocks, but the model has " +
                         std::to_string(model.layers) + "; name each");
  const auto is = [&](std::size_t layer, std::string_view kind) { return layers[layer] == kind; };
  bool all_global = true, in_turn = true;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    all_global = all_global && is(layer, "global");
    in_turn = in_turn && is(layer, layer % 2 == 0 ? "global" : "local");
  }
  if (!all_global && !in_turn)
    fields.fail(key,
                "'global' and 'local' in turn, or 'global' everywhere, are built; use one of "
                "them");
  const int window = is_given(fields, "window_size") ? fields.required<int>("window_size") : 256;
  if (window < 1) fields.fail("window_size", std::to_string(window) + " must be 1 or more");
  model.local_window = all_global ? 0 : window;
  model.local_period = 2;
  model.global_place = 0;
}

// Checks that encoder and decoder of BART have the same sizes, because unlike stacks cannot be
// built.
void check_bart(Fields& fields, Model& model) {
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

// Checks that encoder and decoder of T5 have the same number of layers. Newer files have a key of
// their own for whether activations are scaled before the head.
void check_t5(Fields& fields, const Model& model) {
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

void read_vit(Fields& fields, Model& model) {
  read_image_sizes(fields, {"image_size", "patch_size", "num_channels"}, model);
  model.vocabulary = classes_of(fields);
  if (model.vocabulary < 1 || model.vocabulary > most_classes)
    fields.fail(is_given(fields, "num_labels") ? "num_labels" : "id2label",
                std::to_string(model.vocabulary) + " classes are out of range; use 1 to " +
                    std::to_string(most_classes));
}

// Reads the width of ALBERT's tables and of its head.
void read_albert(Fields& fields, Model& model) {
  model.embedding =
      is_given(fields, "embedding_size") ? fields.required<int>("embedding_size") : 128;
  if (model.embedding < 1 || model.embedding > model.hidden)
    fields.fail("embedding_size", std::to_string(model.embedding) +
                                      " is out of range; use 1 to hidden_size " +
                                      std::to_string(model.hidden));
}

// A model type that needs an operation that meshwright does not have.
struct Lacking {
  std::string_view model_type, what;
};
constexpr Lacking lacking[] = {
    {"cohere2", "blocks without rotary positions among those with windows"},
};

const ModelType& model_type_of(Fields& fields) {
  std::vector<std::string> known;
  for (const ModelType& row : model_types) known.emplace_back(row.name);
  const auto word = fields.required<std::string>("model_type");
  for (const Lacking& row : lacking)
    if (word == row.model_type)
      fields.fail("model_type", "'" + word + "' needs " + std::string(row.what) +
                                    ", which meshwright lacks; known: " + list_of(known, "and"));
  return model_types[static_cast<std::size_t>(
      choose(fields, "model_type", "model_type", word, known))];
}

// Returns `text_config`, the part for texts of a model that also reads images.
Fields text_of(Fields& fields, std::string_view of_text) {
  const std::string_view key = "text_config";
  if (!is_given(fields, key)) fields.fail(key, "missing; it is required (an object)");
  Fields text = fields.object(key);
  if (is_given(text, "model_type") && text.required<std::string>("model_type") != of_text)
    text.fail("model_type", "must be '" + std::string(of_text) + "'");
  return text;
}

}  // namespace

Model read_huggingface(Fields fields) {
  const ModelType& type = model_type_of(fields);
  if (type.name == "llama4") fields = text_of(fields, name_of(type.architecture));
  Model model = model_of(type.architecture);
  model.name = type.name;
  check_fixed(fields, type);
  check_given(fields, type);
  if (decoders::gives_head_width(fields, model)) read_head_dim(fields, "head_dim", model);
  if (type.architecture == Architecture::mixtral) read_mixtral(fields, model);
  if (type.architecture == Architecture::vit) read_vit(fields, model);
  if (type.architecture == Architecture::t5) read_t5(fields, model);
  read_sizes(fields, type.sizes, model);
  if (type.read != nullptr) type.read(fields, model);
  read_activation(fields, type.activation, model);
  if (is_given(fields, type.epsilon)) model.norm_epsilon = fields.required<double>(type.epsilon);
  if (!(model.norm_epsilon >= 0 && model.norm_epsilon < 1))
    fields.fail(type.epsilon, "must be from 0 to 1");
  if (is_given(fields, "tie_word_embeddings") && !model.reads_images())
    model.tied_embeddings = fields.required<bool>("tie_word_embeddings");
  if (is_given(fields, "attention_bias") && type.architecture == Architecture::gpt_neox)
    model.attention_bias = model.attention_out_bias = fields.required<bool>("attention_bias");
  if (is_given(fields, "use_parallel_residual") && type.architecture == Architecture::gpt_neox)
    model.parallel_residual = fields.required<bool>("use_parallel_residual");
  if (model.family == Family::bert) read_bert(fields, model);
  if (model.architecture == Architecture::bart) check_bart(fields, model);
  if (model.architecture == Architecture::gpt_neo) read_gpt_neo(fields, model);
  if (model.has_decoder()) read_decoder_start(fields, "decoder_start_token_id", model);
  if (model.architecture == Architecture::t5) check_t5(fields, model);
  if (model.architecture == Architecture::albert) read_albert(fields, model);
  read_rotary(fields, model);
  read_head(fields, model);
  return model;
}

}  // namespace meshwright
