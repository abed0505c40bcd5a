#include "models/architectures/huggingface_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/architectures/architecture.h"
#include "models/architectures/huggingface_head.h"
#include "models/core/error.h"

namespace meshwright {

namespace {

using nlohmann::json;

struct Writer {
  Architecture architecture;
  std::string_view generator, reader;  // classes for a language model and for question answering
  std::string_view activation, epsilon;
  SizeKeys sizes;
};

constexpr SizeKeys new_keys = {
    "hidden_size",       "num_hidden_layers", "num_attention_heads",    "",
    "intermediate_size", "vocab_size",        "max_position_embeddings"};
constexpr SizeKeys old_keys = {"n_embd",  "n_layer",    "n_head",     "",
                               "n_inner", "vocab_size", "n_positions"};

constexpr SizeKeys gpt_neo_keys = {"hidden_size",
                                   "num_layers",
                                   "num_heads",
                                   "",
                                   "intermediate_size",
                                   "vocab_size",
                                   "max_position_embeddings"};
constexpr SizeKeys bart_keys = {"d_model",         "encoder_layers", "encoder_attention_heads", "",
                                "encoder_ffn_dim", "vocab_size",     "max_position_embeddings"};
constexpr SizeKeys t5_keys = {"d_model", "num_layers", "num_heads", "", "d_ff", "vocab_size", ""};
constexpr SizeKeys vit_keys = {
    "hidden_size", "num_hidden_layers", "num_attention_heads", "", "intermediate_size", "", ""};
constexpr SizeKeys distilbert_keys = {
    "dim", "n_layers", "n_heads", "", "hidden_dim", "vocab_size", "max_position_embeddings"};

constexpr SizeKeys decoder_keys = {
    "hidden_size",       "num_hidden_layers", "num_attention_heads",    "num_key_value_heads",
    "intermediate_size", "vocab_size",        "max_position_embeddings"};
constexpr SizeKeys qwen3_moe_keys = {
    "hidden_size",           "num_hidden_layers", "num_attention_heads",    "num_key_value_heads",
    "moe_intermediate_size", "vocab_size",        "max_position_embeddings"};
constexpr SizeKeys opt_keys = {"hidden_size", "num_hidden_layers", "num_attention_heads",    "",
                               "ffn_dim",     "vocab_size",        "max_position_embeddings"};
constexpr SizeKeys falcon_keys = {
    "hidden_size",     "num_hidden_layers", "num_attention_heads",    "num_kv_heads",
    "ffn_hidden_size", "vocab_size",        "max_position_embeddings"};

constexpr Writer writers[] = {
    {Architecture::gpt2, "GPT2LMHeadModel", "GPT2ForQuestionAnswering", "activation_function",
     "layer_norm_epsilon", old_keys},
    {Architecture::gpt_neo, "GPTNeoForCausalLM", "GPTNeoForQuestionAnswering",
     "activation_function", "layer_norm_epsilon", gpt_neo_keys},
    {Architecture::gptj, "GPTJForCausalLM", "GPTJForQuestionAnswering", "activation_function",
     "layer_norm_epsilon", old_keys},
    {Architecture::gpt_neox, "GPTNeoXForCausalLM", "GPTNeoXForQuestionAnswering", "hidden_act",
     "layer_norm_eps", new_keys},
    {Architecture::llama, "LlamaForCausalLM", "LlamaForQuestionAnswering", "hidden_act",
     "rms_norm_eps", new_keys},
    {Architecture::mixtral, "MixtralForCausalLM", "MixtralForQuestionAnswering", "hidden_act",
     "rms_norm_eps", new_keys},
    {Architecture::bert, "BertForMaskedLM", "BertForQuestionAnswering", "hidden_act",
     "layer_norm_eps", new_keys},
    {Architecture::roberta, "RobertaForMaskedLM", "RobertaForQuestionAnswering", "hidden_act",
     "layer_norm_eps", new_keys},
    {Architecture::distilbert, "DistilBertForMaskedLM", "DistilBertForQuestionAnswering",
     "activation", "", distilbert_keys},
    {Architecture::albert, "AlbertForMaskedLM", "AlbertForQuestionAnswering", "hidden_act",
     "layer_norm_eps", new_keys},
    {Architecture::bart, "BartForConditionalGeneration", "BartForQuestionAnswering",
     "activation_function", "", bart_keys},
    {Architecture::t5, "T5ForConditionalGeneration", "T5ForQuestionAnswering", "feed_forward_proj",
     "layer_norm_epsilon", t5_keys},
    {Architecture::vit, "ViTForImageClassification", "", "hidden_act", "layer_norm_eps", vit_keys},
    {Architecture::qwen2, "Qwen2ForCausalLM", "Qwen2ForQuestionAnswering", "hidden_act",
     "rms_norm_eps", decoder_keys},
    {Architecture::starcoder2, "Starcoder2ForCausalLM", "", "hidden_act", "norm_epsilon",
     decoder_keys},
    {Architecture::stablelm, "StableLmForCausalLM", "", "hidden_act", "layer_norm_eps",
     decoder_keys},
    {Architecture::opt, "OPTForCausalLM", "OPTForQuestionAnswering", "activation_function", "",
     opt_keys},
    {Architecture::phi3, "Phi3ForCausalLM", "", "hidden_act", "rms_norm_eps", decoder_keys},
    {Architecture::gemma, "GemmaForCausalLM", "", "hidden_act", "rms_norm_eps", decoder_keys},
    {Architecture::gemma2, "Gemma2ForCausalLM", "", "hidden_activation", "rms_norm_eps",
     decoder_keys},
    {Architecture::olmo2, "Olmo2ForCausalLM", "", "hidden_act", "rms_norm_eps", decoder_keys},
    {Architecture::qwen3, "Qwen3ForCausalLM", "Qwen3ForQuestionAnswering", "hidden_act",
     "rms_norm_eps", decoder_keys},
    {Architecture::qwen3_moe, "Qwen3MoeForCausalLM", "Qwen3MoeForQuestionAnswering", "hidden_act",
     "rms_norm_eps", qwen3_moe_keys},
    {Architecture::qwen2_moe, "Qwen2MoeForCausalLM", "Qwen2MoeForQuestionAnswering", "hidden_act",
     "rms_norm_eps", qwen3_moe_keys},
    {Architecture::granitemoe, "GraniteMoeForCausalLM", "", "hidden_act", "rms_norm_eps",
     decoder_keys},
    {Architecture::gpt_oss, "GptOssForCausalLM", "", "hidden_act", "rms_norm_eps", decoder_keys},
    {Architecture::llama4_text, "Llama4ForCausalLM", "", "hidden_act", "rms_norm_eps",
     decoder_keys},
    {Architecture::gemma3_text, "Gemma3ForCausalLM", "", "hidden_activation", "rms_norm_eps",
     decoder_keys},
    {Architecture::olmoe, "OlmoeForCausalLM", "", "hidden_act", "rms_norm_eps", decoder_keys},
    {Architecture::nemotron, "NemotronForCausalLM", "NemotronForQuestionAnswering", "hidden_act",
     "norm_eps", decoder_keys},
    {Architecture::falcon, "FalconForCausalLM", "FalconForQuestionAnswering", "activation",
     "layer_norm_epsilon", falcon_keys},
    {Architecture::falcon_two_norms, "FalconForCausalLM", "FalconForQuestionAnswering",
     "activation", "layer_norm_epsilon", falcon_keys},
    {Architecture::gpt_bigcode, "GPTBigCodeForCausalLM", "", "activation_function",
     "layer_norm_epsilon", old_keys},
    {Architecture::cohere, "CohereForCausalLM", "", "hidden_act", "layer_norm_eps", decoder_keys},
    {Architecture::glm4_moe, "Glm4MoeForCausalLM", "", "hidden_act", "rms_norm_eps",
     qwen3_moe_keys},
    {Architecture::deepseek_v2, "DeepseekV2ForCausalLM", "", "hidden_act", "rms_norm_eps",
     qwen3_moe_keys},
    {Architecture::deepseek_v3, "DeepseekV3ForCausalLM", "", "hidden_act", "rms_norm_eps",
     qwen3_moe_keys},
    {Architecture::internlm2, "InternLM2ForCausalLM", "", "hidden_act", "rms_norm_eps",
     decoder_keys},
};

std::string_view activation_of(const Model& model) {
  if (model.squared_relu) return "relu2";
  if (model.relu) return "relu";
  const bool is_newer = model.architecture >= Architecture::qwen2;
  if (is_newer && model.gelu_tanh) return "gelu_pytorch_tanh";
  if (model.gated_gelu) return "gated-gelu";
  if (model.gated_ffn) return "silu";
  return model.gelu_tanh ? "gelu_new" : "gelu";
}

json yarn_of(const Model& model) {
  json yarn = {{"rope_type", "yarn"},
               {"factor", model.rotary_factor},
               {"beta_fast", model.rotary_high},
               {"beta_slow", model.rotary_low},
               {"original_max_position_embeddings", model.rotary_original}};
  if (!model.rotary_truncate) yarn["truncate"] = false;
  const double root = std::sqrt(model.score_factor);
  if (model.kv_lora_rank == 0)
    yarn["attention_factor"] = root;
  else if (model.rotary_factor > 1)
    yarn["mscale"] = yarn["mscale_all_dim"] = (root - 1) / (0.1 * std::log(model.rotary_factor));
  return yarn;
}

// Writes the keys of rotary positions and windows, which both older and newer decoders have.
void add_decoder_keys(const Model& model, json& config) {
  if (model.rotary_yarn) {
    config["rope_scaling"] = yarn_of(model);
  } else if (model.rotary_factor != 1) {
    config["rope_scaling"] = {{"rope_type", model.rotary_original > 0 ? "llama3" : "linear"},
                              {"factor", model.rotary_factor}};
    if (model.rotary_original > 0)
      config["rope_scaling"].update({{"low_freq_factor", model.rotary_low},
                                     {"high_freq_factor", model.rotary_high},
                                     {"original_max_position_embeddings", model.rotary_original}});
  }
  if (model.architecture == Architecture::llama && model.local_window > 0) {
    config["model_type"] = "mistral";
    config["architectures"] = {model.classifies_text()  ? "MistralForSequenceClassification"
                               : model.head == Head::qa ? "MistralForQuestionAnswering"
                                                        : "MistralForCausalLM"};
    config["sliding_window"] = model.local_window;
  }
}

void add_window(const Model& model, json& config) {
  const bool has_one = model.local_window > 0;
  config["sliding_window"] = has_one ? json(model.local_window) : json(nullptr);
  if (model.architecture != Architecture::qwen2 && model.architecture != Architecture::qwen3)
    return;
  config["use_sliding_window"] = has_one;
  config["max_window_layers"] = has_one ? model.local_from : model.layers;
}

void add_layer_types(const Model& model, json& config) {
  config["layer_types"] = json::array();
  for (int block = 0; block < model.layers; ++block)
    config["layer_types"].push_back(model.window_of(block) > 0 ? "sliding_attention"
                                                               : "full_attention");
}

// Writes the keys of Gemma 2. A `sliding_window` is always written, because transformers makes the
// mask of a window even if no block has one.
void add_keys_of_gemma2(const Model& model, json& config) {
  constexpr int usual_window = 4096;
  const auto or_null = [](double cap) { return cap > 0 ? json(cap) : json(nullptr); };
  config["query_pre_attn_scalar"] = model.score_width > 0 ? model.score_width : model.head_dim;
  config["attn_logit_softcapping"] = or_null(model.score_cap);
  config["final_logit_softcapping"] = or_null(model.logit_cap);
  config["sliding_window"] = model.local_window > 0 ? model.local_window : usual_window;
  add_layer_types(model, config);
}

// Writes the keys of experts that transformers does not have and only meshwright reads.
void add_own_words(const Model& model, json& config) {
  if (model.expert_capacity_factor > 0)
    config["expert_capacity_factor"] = model.expert_capacity_factor;
  if (!model.expert_dropless) return;
  config["expert_dropless"] = true;
  config["expert_rank_capacity_factor"] = model.expert_rank_capacity_factor;
  config["expert_overflow"] = model.expert_overflow_drops ? "drop" : "error";
}

void add_experts(std::string_view count_key, const Model& model, json& config) {
  config[std::string(count_key)] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["router_aux_loss_coef"] = model.router_aux_loss_coef;
  config["output_router_logits"] = model.router_aux_loss_coef > 0;
  add_own_words(model, config);
}

void add_keys_of_granitemoe(const Model& model, json& config) {
  config["attention_bias"] = model.attention_bias;
  config["embedding_multiplier"] = model.embedding_scale;
  config["residual_multiplier"] = model.residual_scale;
  config["logits_scaling"] = 1 / model.logit_scale;
  config["attention_multiplier"] =
      model.score_factor / std::sqrt(static_cast<double>(model.head_dim));
  config["pad_token_id"] = nullptr;
  add_experts("num_local_experts", model, config);
}

void add_keys_of_gpt_oss(const Model& model, json& config) {
  config["attention_bias"] = model.attention_bias;
  config["head_dim"] = model.head_dim;
  config["swiglu_limit"] = model.swiglu_limit;
  config["sliding_window"] = model.local_window;
  add_layer_types(model, config);
  add_experts("num_local_experts", model, config);
}

void add_keys_of_llama4(const Model& model, json& config) {
  config["attention_bias"] = model.attention_bias;
  config["head_dim"] = model.head_dim;
  config["use_qk_norm"] = model.query_key_norm == QueryKeyNorm::turned;
  config["intermediate_size_mlp"] = model.dense_ffn > 0 ? model.dense_ffn : model.ffn;
  config["attention_chunk_size"] = model.attention_chunk;
  config["attn_temperature_tuning"] = model.temperature > 0;
  config["attn_scale"] = model.temperature;
  config["floor_scale"] = model.temperature_floor;
  config["pad_token_id"] = nullptr;  // the published token exceeds small vocabularies
  for (const char* key : {"moe_layers", "no_rope_layers", "layer_types"})
    config[key] = json::array();
  for (int block = 0; block < model.layers; ++block) {
    const bool turns = model.has_rotary(block);
    if (model.has_experts(block)) config["moe_layers"].push_back(block);
    config["no_rope_layers"].push_back(turns ? 1 : 0);
    config["layer_types"].push_back(turns ? "chunked_attention" : "full_attention");
  }
  add_experts("num_local_experts", model, config);
}

void add_deepseek_experts(const Model& model, json& config) {
  config["n_routed_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["n_group"] = model.expert_groups;
  config["topk_group"] = model.groups_per_token;
  config["routed_scaling_factor"] = model.expert_weight_scale;
  config["norm_topk_prob"] = !model.expert_weights_of_all;
  config["n_shared_experts"] = model.shared_ffn / model.ffn;
  config["first_k_dense_replace"] = model.dense_blocks.size();
  config["intermediate_size"] = model.dense_ffn > 0 ? model.dense_ffn : model.ffn;
  add_own_words(model, config);
}

void add_latent_attention(const Model& model, json& config) {
  config["attention_bias"] = model.attention_bias;
  config["q_lora_rank"] = model.q_lora_rank > 0 ? json(model.q_lora_rank) : json(nullptr);
  config["kv_lora_rank"] = model.kv_lora_rank;
  config["qk_rope_head_dim"] = model.rotary_dim;
  config["qk_nope_head_dim"] = model.head_dim - model.rotary_dim;
  config["v_head_dim"] = model.v_head_dim;
  add_deepseek_experts(model, config);
  if (model.architecture == Architecture::deepseek_v2) config["norm_topk_prob"] = false;
}

// Writes the keys in which the newer decoders differ from each other.
void add_keys_of_newer(const Model& model, json& config) {
  const double share = static_cast<double>(model.rotary_dim) / model.head_dim;
  if (model.rotary_dim > 0) config["rope_theta"] = model.rotary_base;
  if (model.head_dim * model.heads != model.hidden && model.kv_lora_rank == 0)
    config["head_dim"] = model.head_dim;
  switch (model.architecture) {
    case Architecture::qwen3:
      config["attention_bias"] = model.attention_bias;
      config["head_dim"] = model.head_dim;
      [[fallthrough]];
    case Architecture::qwen2:
      return add_window(model, config);
    case Architecture::qwen2_moe:
      config["qkv_bias"] = model.attention_bias;
      config["shared_expert_intermediate_size"] = model.shared_ffn;
      [[fallthrough]];
    case Architecture::qwen3_moe:
      config["decoder_sparse_step"] = 1;
      config["mlp_only_layers"] = model.dense_blocks;
      if (model.dense_ffn > 0) config["intermediate_size"] = model.dense_ffn;
      [[fallthrough]];
    case Architecture::olmoe:
      if (model.architecture != Architecture::qwen2_moe) {
        config["attention_bias"] = model.attention_bias;
        config["head_dim"] = model.head_dim;
      }
      config["norm_topk_prob"] = !model.expert_weights_of_all;
      return add_experts("num_experts", model, config);
    case Architecture::deepseek_v2:
      config["topk_method"] = model.expert_groups > 1 ? "group_limited_greedy" : "greedy";
      return add_latent_attention(model, config);
    case Architecture::deepseek_v3:
      config["rope_interleave"] = model.rotary_interleaved;
      config["num_nextn_predict_layers"] = 0;
      return add_latent_attention(model, config);
    case Architecture::glm4_moe:
      config["attention_bias"] = model.attention_bias;
      config["head_dim"] = model.head_dim;
      config["partial_rotary_factor"] = share;
      config["use_qk_norm"] = model.query_key_norm == QueryKeyNorm::heads;
      config["num_nextn_predict_layers"] = 0;
      return add_deepseek_experts(model, config);
    case Architecture::starcoder2:
      config["use_bias"] = model.biases;
      return add_window(model, config);
    case Architecture::stablelm:
      config["use_qkv_bias"] = model.attention_bias;
      config["use_parallel_residual"] = model.parallel_residual;
      config["partial_rotary_factor"] = share;
      return;
    case Architecture::opt:
      config["word_embed_proj_dim"] = model.hidden;
      config["do_layer_norm_before"] = true;
      return;
    case Architecture::phi3:
      config["partial_rotary_factor"] = share;
      config["pad_token_id"] = nullptr;  // the usual token exceeds small vocabularies
      return add_window(model, config);
    case Architecture::granitemoe:
      return add_keys_of_granitemoe(model, config);
    case Architecture::gpt_oss:
      return add_keys_of_gpt_oss(model, config);
    case Architecture::llama4_text:
      return add_keys_of_llama4(model, config);
    case Architecture::gemma3_text:
      config["rope_local_base_freq"] = model.local_rotary_base;
      [[fallthrough]];
    case Architecture::gemma2:
      add_keys_of_gemma2(model, config);
      [[fallthrough]];
    case Architecture::gemma:
      config["head_dim"] = model.head_dim;
      config["attention_bias"] = model.attention_bias;
      return;
    case Architecture::olmo2:
      config["attention_bias"] = model.attention_bias;
      return;
    case Architecture::nemotron:
      config["head_dim"] = model.head_dim;
      config["attention_bias"] = model.attention_bias;
      config["mlp_bias"] = model.biases;
      config["partial_rotary_factor"] = share;
      return;
    case Architecture::falcon:
    case Architecture::falcon_two_norms: {
      const bool is_new = model.architecture == Architecture::falcon_two_norms ||
                          (model.kv_heads > 1 && model.kv_heads < model.heads);
      config["new_decoder_architecture"] = is_new;
      config["multi_query"] = !is_new && model.kv_heads == 1;
      config["parallel_attn"] = model.parallel_residual;
      if (model.parallel_residual)
        config["num_ln_in_parallel_attn"] =
            model.architecture == Architecture::falcon_two_norms ? 2 : 1;
      config["bias"] = model.biases;
      config["alibi"] = false;
      return;
    }
    case Architecture::gpt_bigcode:
      config["multi_query"] = model.kv_heads == 1;
      return;
    case Architecture::cohere:
      config["attention_bias"] = model.attention_bias;
      config["logit_scale"] = model.logit_scale;
      config["use_qk_norm"] = false;
      return;
    case Architecture::internlm2:
      config["bias"] = model.attention_bias;
      return;
    default:
      return;
  }
}

// Writes the keys that only some architectures have.
void add_own_keys(const Model& model, json& config) {
  if (model.architecture == Architecture::llama) {
    config["num_key_value_heads"] = model.kv_heads;
    config["head_dim"] = model.head_dim;
    config["rope_theta"] = model.rotary_base;
    config["attention_bias"] = model.attention_bias;
    config["mlp_bias"] = model.biases;
  } else if (model.architecture == Architecture::mixtral) {
    config["num_key_value_heads"] = model.kv_heads;
    config["head_dim"] = model.head_dim;
    config["rope_theta"] = model.rotary_base;
    add_experts("num_local_experts", model, config);
  } else if (model.architecture == Architecture::gpt_neox) {
    config["rotary_pct"] = static_cast<double>(model.rotary_dim) / model.head_dim;
    config["rotary_emb_base"] = model.rotary_base;
    config["use_parallel_residual"] = model.parallel_residual;
    config["attention_bias"] = model.attention_bias;
  } else if (model.architecture == Architecture::gpt_neo) {
    config["attention_layers"] = json::array();
    for (int layer = 0; layer < model.layers; ++layer)
      config["attention_layers"].push_back(model.local_window > 0 && layer % 2 == 1 ? "local"
                                                                                    : "global");
    config["attention_types"] = json::array({json::array({config["attention_layers"], 1})});
    if (model.local_window > 0) config["window_size"] = model.local_window;
  } else if (model.architecture == Architecture::gptj) {
    config["rotary_dim"] = model.rotary_dim;
  } else if (model.token_types > 0) {
    config["type_vocab_size"] = model.token_types;
  }
  if (model.classifies_text()) config["num_labels"] = model.classes;
  if (model.reads_images()) {
    config["image_size"] = model.image_size;
    config["patch_size"] = model.patch_size;
    config["num_channels"] = model.channels;
    config["num_labels"] = model.vocabulary;
  }
  if (model.architecture == Architecture::albert) config["embedding_size"] = model.embedding;
  if (model.architecture == Architecture::bart) {
    config["activation_dropout"] = model.activation_dropout ? 0.1 : 0.0;
    config["decoder_layers"] = model.layers;
    config["decoder_attention_heads"] = model.heads;
    config["decoder_ffn_dim"] = model.ffn;
  } else if (model.architecture == Architecture::t5) {
    config["d_kv"] = model.head_dim;
    config["num_decoder_layers"] = model.layers;
    config["relative_attention_num_buckets"] = model.relative_buckets;
    config["relative_attention_max_distance"] = model.relative_distance;
    config["pad_token_id"] = 0;
  }
  if (model.has_decoder()) {
    config["is_encoder_decoder"] = true;
    config["decoder_start_token_id"] = model.decoder_start;
  } else if (model.position_offset > 0 && model.token_types > 0) {
    config["max_position_embeddings"] = model.positions + model.position_offset;
    config["pad_token_id"] = model.position_offset - 1;
  }
}

}  // namespace

json huggingface_config(const Model& model) {
  if (model.imported)
    throw NotSupportedYet("a config.json cannot be written for a model from an ONNX file yet");
  const auto writer = std::find_if(std::begin(writers), std::end(writers), [&](const Writer& each) {
    return each.architecture == model.architecture;
  });
  if (writer == std::end(writers)) {
    std::vector<std::string> known;
    for (const Writer& each : writers) known.emplace_back(name_of(each.architecture));
    throw NotSupportedYet("a config.json cannot be written for the architecture " +
                          std::string(name_of(model.architecture)) +
                          " yet; known: " + list_of(known, "and"));
  }
  const std::string name = class_of(writer->generator, writer->reader, model);
  json config = {{"architectures", {name}},
                 {"model_type", name_of(model.architecture)},
                 {"dtype", "float32"},
                 {"torch_dtype", "float32"},  // read by older versions
                 {"tie_word_embeddings", model.tied_embeddings}};
  const auto set = [&](std::string_view key, const json& value) {
    config[std::string(key)] = value;
  };
  const SizeKeys& keys = writer->sizes;
  set(keys.hidden, model.hidden);
  set(keys.layers, model.layers);
  set(keys.heads, model.heads);
  set(keys.ffn, model.ffn);
  if (!keys.vocabulary.empty()) set(keys.vocabulary, model.vocabulary);
  if (!keys.positions.empty() && model.positions > 0) set(keys.positions, model.positions);
  if (!writer->epsilon.empty()) set(writer->epsilon, model.norm_epsilon);
  set(writer->activation, activation_of(model));
  if (!keys.kv_heads.empty()) set(keys.kv_heads, model.kv_heads);
  add_own_keys(model, config);
  if (model.architecture >= Architecture::qwen2) add_keys_of_newer(model, config);
  add_decoder_keys(model, config);
  if (model.pad_token >= 0) config["pad_token_id"] = model.pad_token;
  return config;
}

}  // namespace meshwright
