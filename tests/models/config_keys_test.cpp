// Tests the keys of a config.json of Hugging Face, one by one. A missing key must mean the default
// of transformers' configuration class, and some values must be rejected.
#include <cmath>
#include <string>

#include "tests/models/imported.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

struct Default {
  std::string family;  // whose file in tests/golden/transformers is read
  std::string key, usual, another;
};

// The defaults, each with another value of the key, if another one is supported.
const Default defaults[] = {
    {"llama", "attention_bias", "false", "true"},
    {"llama", "mlp_bias", "false", "true"},
    {"llama", "rms_norm_eps", "1e-6", "1e-5"},
    {"llama", "rope_theta", "1e4", "2e4"},
    {"llama", "num_key_value_heads", "4", "1"},
    {"llama", "tie_word_embeddings", "false", "true"},
    {"mistral", "sliding_window", "4096", "7"},
    {"mistral", "rms_norm_eps", "1e-6", "1e-5"},
    {"mixtral", "rms_norm_eps", "1e-5", "1e-6"},
    {"mixtral", "output_router_logits", "false", "true"},
    {"qwen2", "use_sliding_window", "false", "true"},
    {"qwen2", "rms_norm_eps", "1e-6", "1e-5"},
    {"qwen3", "attention_bias", "false", "true"},
    {"qwen3", "head_dim", "128", "64"},
    {"qwen3", "use_sliding_window", "false", "true"},
    {"qwen3_moe", "attention_bias", "false", "true"},
    {"qwen3_moe", "norm_topk_prob", "false", "true"},
    {"qwen3_moe", "decoder_sparse_step", "1", "2"},
    {"qwen3_moe", "mlp_only_layers", "[]", "[0]"},
    {"qwen3_moe", "output_router_logits", "false", "true"},
    {"qwen2_moe", "qkv_bias", "true", "false"},
    {"qwen2_moe", "norm_topk_prob", "false", "true"},
    {"qwen2_moe", "shared_expert_intermediate_size", "5632", "24"},
    {"qwen2_moe", "decoder_sparse_step", "1", "2"},
    {"olmoe", "norm_topk_prob", "false", "true"},
    {"olmoe", "attention_bias", "false", "true"},
    {"olmoe", "rms_norm_eps", "1e-5", "1e-6"},
    {"granitemoe", "attention_bias", "false", "true"},
    {"granitemoe", "embedding_multiplier", "1", "12"},
    {"granitemoe", "residual_multiplier", "1", "0.22"},
    {"granitemoe", "logits_scaling", "1", "6"},
    {"granitemoe", "attention_multiplier", "1", "0.5"},
    {"granitemoe", "rms_norm_eps", "1e-6", "1e-5"},
    {"gpt_oss", "attention_bias", "true", "false"},
    {"gpt_oss", "head_dim", "64", "32"},
    {"gpt_oss", "swiglu_limit", "7", "5"},
    {"gpt_oss", "sliding_window", "128", "64"},
    {"gpt_oss", "rope_theta", "150000", "10000"},
    {"gpt_oss", "rms_norm_eps", "1e-5", "1e-6"},
    {"gpt_oss", "rope_scaling",
     R"({"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1, "truncate": false,
         "original_max_position_embeddings": 4096})",
     R"({"rope_type": "default"})"},
    {"glm4_moe", "attention_bias", "false", "true"},
    {"glm4_moe", "use_qk_norm", "false", "true"},
    {"glm4_moe", "norm_topk_prob", "true", "false"},
    {"glm4_moe", "n_group", "1", "2"},
    {"glm4_moe", "topk_group", "1", "2"},
    {"glm4_moe", "routed_scaling_factor", "1", "2.5"},
    {"glm4_moe", "n_shared_experts", "1", "2"},
    {"glm4_moe", "first_k_dense_replace", "1", "0"},
    {"llama4", "attention_bias", "false", "true"},
    {"llama4", "use_qk_norm", "true", "false"},
    {"llama4", "head_dim", "128", "64"},
    {"llama4", "interleave_moe_layer_step", "1", "2"},
    {"llama4", "no_rope_layer_interval", "4", "2"},
    {"llama4", "attention_chunk_size", "8192", "7"},
    {"llama4", "attn_temperature_tuning", "true", "false"},
    {"llama4", "attn_temperature_tuning", "4", "0"},  // as older files have it
    {"llama4", "floor_scale", "8192", "7"},
    {"llama4", "attn_scale", "0.1", "0.2"},
    {"deepseek_v2", "qk_rope_head_dim", "64", "32"},
    {"deepseek_v2", "qk_nope_head_dim", "128", "64"},
    {"deepseek_v2", "v_head_dim", "128", "8"},
    {"deepseek_v2", "kv_lora_rank", "512", "8"},
    {"deepseek_v2", "q_lora_rank", "1536", "null"},
    {"deepseek_v2", "attention_bias", "false", "true"},
    {"deepseek_v2", "topk_method", "\"greedy\"", "\"group_limited_greedy\""},
    {"deepseek_v2", "n_shared_experts", "2", "1"},
    {"deepseek_v2", "routed_scaling_factor", "1", "16"},
    {"deepseek_v2", "first_k_dense_replace", "0", "1"},
    {"deepseek_v3", "rope_interleave", "true", "false"},
    {"deepseek_v3", "norm_topk_prob", "true", "false"},
    {"deepseek_v3", "n_group", "8", "4"},
    {"deepseek_v3", "topk_group", "4", "2"},
    {"deepseek_v3", "n_shared_experts", "1", "2"},
    {"deepseek_v3", "routed_scaling_factor", "2.5", "1"},
    {"deepseek_v3", "first_k_dense_replace", "3", "1"},
    {"starcoder2", "use_bias", "true", "false"},
    {"starcoder2", "norm_epsilon", "1e-5", "1e-6"},
    {"starcoder2", "sliding_window", "null", "7"},
    {"stablelm", "use_qkv_bias", "false", "true"},
    {"stablelm", "use_parallel_residual", "false", "true"},
    {"stablelm", "layer_norm_eps", "1e-5", "1e-6"},
    {"stablelm", "partial_rotary_factor", "0.25", "0.5"},
    {"phi3", "rms_norm_eps", "1e-5", "1e-6"},
    {"phi3", "sliding_window", "null", "7"},
    {"gemma", "attention_bias", "false", "true"},
    {"gemma", "head_dim", "256", "64"},
    {"gemma", "rms_norm_eps", "1e-6", "1e-5"},
    {"gemma2", "head_dim", "256", "64"},
    {"gemma2", "query_pre_attn_scalar", "256", "64"},
    {"gemma2", "attn_logit_softcapping", "50", "null"},
    {"gemma2", "final_logit_softcapping", "30", "null"},
    {"gemma2", "sliding_window", "4096", "7"},
    {"gemma3", "head_dim", "256", "64"},
    {"gemma3", "query_pre_attn_scalar", "256", "64"},
    {"gemma3", "attn_logit_softcapping", "null", "50"},
    {"gemma3", "final_logit_softcapping", "null", "30"},
    {"gemma3", "rope_theta", "1e6", "1e4"},
    {"gemma3", "rope_local_base_freq", "1e4", "2e4"},
    {"gemma3", "sliding_window_pattern", "6", "3"},
    {"gemma3", "sliding_window", "4096", "7"},
    {"olmo2", "rms_norm_eps", "1e-5", "1e-6"},
    {"olmo2", "attention_bias", "false", "true"},
    {"nemotron", "norm_eps", "1e-5", "1e-6"},
    {"nemotron", "partial_rotary_factor", "0.5", "1.0"},
    {"nemotron", "mlp_bias", "false", "true"},
    {"falcon", "bias", "false", "true"},
    {"falcon", "multi_query", "true", "false"},
    {"falcon", "parallel_attn", "true", "false"},
    {"falcon", "new_decoder_architecture", "false", "true"},
    {"falcon", "layer_norm_epsilon", "1e-5", "1e-6"},
    {"falcon-40b", "num_ln_in_parallel_attn", "2", "1"},
    {"falcon-40b", "num_kv_heads", "4", "2"},
    {"gpt_bigcode", "multi_query", "true", "false"},
    {"cohere", "attention_bias", "false", "true"},
    {"cohere", "logit_scale", "0.0625", "1"},
    {"cohere", "layer_norm_eps", "1e-5", "1e-6"},
    {"internlm2", "bias", "true", "false"},
    {"internlm2", "rms_norm_eps", "1e-6", "1e-5"},
    {"gpt_neox", "rotary_pct", "0.25", "0.5"},
    {"gpt_neox", "rotary_emb_base", "10000", "20000"},
    {"gpt_neox", "use_parallel_residual", "true", "false"},
    {"gpt_neox", "attention_bias", "true", "false"},
    {"gpt_neox", "layer_norm_eps", "1e-5", "1e-6"},
    {"gpt_neo", "window_size", "256", "7"},
    {"gpt_neo", "attention_types", R"([[["global", "local"], 2]])", R"([[["global"], 4]])"},
    {"gpt_neo", "layer_norm_epsilon", "1e-5", "1e-6"},
    {"gpt2", "layer_norm_epsilon", "1e-5", "1e-6"},
    {"gpt2", "activation_function", "\"gelu_new\"", "\"gelu\""},
    {"gptj", "rotary_dim", "64", "4"},
    {"gptj", "layer_norm_epsilon", "1e-5", "1e-6"},
    {"bert", "type_vocab_size", "2", "3"},
    {"bert", "layer_norm_eps", "1e-12", "1e-5"},
    {"bert", "hidden_act", "\"gelu\"", "\"gelu_new\""},
    {"bert-classes", "num_labels", "2", "5"},
    {"roberta", "pad_token_id", "1", "2"},
    {"roberta", "layer_norm_eps", "1e-12", "1e-5"},
    {"albert", "embedding_size", "128", "8"},
    {"albert", "layer_norm_eps", "1e-12", "1e-5"},
    {"bart", "activation_dropout", "0", "0.1"},
    {"bart", "decoder_start_token_id", "2", "0"},
    {"t5", "d_kv", "64", "8"},
    {"t5", "relative_attention_num_buckets", "32", "8"},
    {"t5", "relative_attention_max_distance", "128", "64"},
    {"t5", "feed_forward_proj", "\"relu\"", "\"gated-gelu\""},
    {"t5", "layer_norm_epsilon", "1e-6", "1e-5"},
    {"t5", "decoder_start_token_id", "0", "1"},
    {"vit", "image_size", "224", "32"},
    {"vit", "patch_size", "16", "8"},
    {"vit", "num_channels", "3", "1"},
    {"vit", "layer_norm_eps", "1e-12", "1e-5"},
};

json file_of(const std::string& family) {
  return parse_json(read_file(source + "/tests/golden/transformers/" + family + "/config.json"),
                    family);
}

// Returns a config that is large enough for the default of the key, and has no other key with which
// the default could not be combined.
json roomy(const Default& row) {
  json config = file_of(row.family);
  for (const char* key : {"layer_types", "rope_scaling", "rope_parameters", "no_rope_layers",
                          "mlp_only_layers", "attention_layers", "moe_layers"})
    if (row.key != key) config.erase(key);
  if (row.family.starts_with("deepseek")) {
    config["n_routed_experts"] = 16;
    config["num_hidden_layers"] = 4;
  }
  if (row.family == "glm4_moe") config["n_group"] = 2;
  if (row.key == "n_group") config["topk_group"] = config["num_experts_per_tok"] = 1;
  if (row.key == "v_head_dim") config["qk_nope_head_dim"] = 128;
  if (row.key == "relative_attention_num_buckets") config["relative_attention_max_distance"] = 128;
  if (row.key == "patch_size") config["image_size"] = 224;
  if (row.key == "embedding_size") config["hidden_size"] = 128;
  if (row.key == "rotary_dim") config["n_embd"] = 64 * config["n_head"].get<int>();
  if (row.key == "max_window_layers") config["use_sliding_window"] = true;
  return config;
}

Model with(json config, const std::string& key, const std::string& value) {
  config[key] = parse_json(value, key);
  return theirs(std::move(config));
}

}  // namespace

TEST_CASE("a silent config.json is one that gives the defaults of transformers", "[importers]") {
  for (const Default& row : defaults) {
    INFO(row.family << ": " << row.key << " " << row.usual);
    json silent = roomy(row);
    silent.erase(row.key);
    Model read, given, other;
    const std::string error = message_of([&] {
      read = theirs(silent);
      given = with(silent, row.key, row.usual);
      other = with(silent, row.key, row.another);
    });
    CHECK(error == "");
    CHECK(read == given);
    CHECK_FALSE(read == other);
  }
}

namespace {

// A key of which only one value is supported. The key may also be missing or null. Another value is
// rejected.
struct Only {
  std::string family, key, built, another;
};

const Only only[] = {
    {"gpt2", "scale_attn_weights", "true", "false"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false", "true"},
    {"gpt2", "add_cross_attention", "false", "true"},
    {"gptj", "scale_attn_weights", "true", "false"},
    {"mixtral", "sliding_window", "null", "4096"},
    {"mixtral", "router_jitter_noise", "0.0", "0.1"},
    {"bert", "position_embedding_type", "\"absolute\"", "\"relative_key\""},
    {"bert", "is_decoder", "false", "true"},
    {"bert", "add_cross_attention", "false", "true"},
    {"roberta", "position_embedding_type", "\"absolute\"", "\"relative_key\""},
    {"roberta", "is_decoder", "false", "true"},
    {"roberta", "add_cross_attention", "false", "true"},
    {"camembert", "is_decoder", "false", "true"},
    {"xlm-roberta", "is_decoder", "false", "true"},
    {"albert", "num_hidden_groups", "1", "2"},
    {"albert", "inner_group_num", "1", "2"},
    {"albert", "position_embedding_type", "\"absolute\"", "\"relative_key\""},
    {"bart", "scale_embedding", "false", "true"},
    {"bart", "tie_word_embeddings", "true", "false"},
    {"vit", "qkv_bias", "true", "false"},
    {"stablelm", "qk_layernorm", "false", "true"},
    {"opt", "do_layer_norm_before", "true", "false"},
    {"opt", "_remove_final_layer_norm", "false", "true"},
    {"opt", "enable_bias", "true", "false"},
    {"opt", "layer_norm_elementwise_affine", "true", "false"},
    {"gemma", "use_bidirectional_attention", "false", "true"},
    {"gemma2", "use_bidirectional_attention", "false", "true"},
    {"gemma3", "use_bidirectional_attention", "false", "true"},
    {"gpt_oss", "swiglu_alpha", "1.702", "1.5"},
    {"falcon", "alibi", "false", "true"},
    {"qwen3_moe", "use_sliding_window", "false", "true"},
    {"qwen2_moe", "use_sliding_window", "false", "true"},
    {"deepseek_v2", "norm_topk_prob", "false", "true"},
    {"deepseek_v2", "mlp_bias", "false", "true"},
    {"olmoe", "clip_qkv", "null", "8.0"},
    {"gpt_bigcode", "scale_attn_weights", "true", "false"},
    {"gpt_bigcode", "add_cross_attention", "false", "true"},
    {"cohere", "use_qk_norm", "false", "true"},
    {"distilbert", "sinusoidal_pos_embds", "false", "true"},
};

// The least value of a key that is accepted, and the next lower one, which is rejected.
struct Least {
  std::string family, key, least, refused;
};

const Least least[] = {
    {"mistral", "sliding_window", "1", "0"},
    {"gpt_oss", "sliding_window", "1", "0"},
    {"gemma2", "sliding_window", "1", "0"},
    {"gemma3", "sliding_window", "1", "0"},
    {"gemma3", "sliding_window_pattern", "1", "0"},
    {"gemma2", "query_pre_attn_scalar", "1", "0"},
    {"gemma3", "query_pre_attn_scalar", "1", "0"},
    {"gemma2", "attn_logit_softcapping", "1e-9", "0"},
    {"gemma2", "final_logit_softcapping", "1e-9", "0"},
    {"gpt_oss", "swiglu_limit", "1e-9", "0"},
    {"granitemoe", "embedding_multiplier", "1e-9", "0"},
    {"granitemoe", "residual_multiplier", "1e-9", "0"},
    {"granitemoe", "logits_scaling", "1e-9", "0"},
    {"granitemoe", "attention_multiplier", "1e-9", "0"},
    {"cohere", "logit_scale", "1e-9", "0"},
    {"deepseek_v3", "routed_scaling_factor", "1e-9", "0"},
    {"deepseek_v3", "n_shared_experts", "0", "-1"},
    {"deepseek_v3", "first_k_dense_replace", "0", "-1"},
    {"deepseek_v2", "kv_lora_rank", "1", "0"},
    {"deepseek_v2", "q_lora_rank", "1", "0"},
    {"deepseek_v2", "v_head_dim", "1", "0"},
    {"deepseek_v2", "qk_nope_head_dim", "16", "0"},
    {"deepseek_v2", "qk_rope_head_dim", "2", "1"},
    {"qwen3_moe", "decoder_sparse_step", "1", "0"},
    {"qwen2_moe", "shared_expert_intermediate_size", "1", "0"},
    {"llama4", "interleave_moe_layer_step", "1", "0"},
    {"llama4", "no_rope_layer_interval", "1", "0"},
    {"llama4", "attention_chunk_size", "1", "0"},
    {"llama4", "floor_scale", "1", "0"},
    {"llama4", "attn_scale", "0", "-0.1"},
    {"falcon-40b", "num_ln_in_parallel_attn", "1", "0"},
    {"gpt_neo", "window_size", "1", "0"},
    {"bert", "type_vocab_size", "1", "0"},
    {"albert", "embedding_size", "1", "0"},
    {"bart", "activation_dropout", "0", "-0.1"},
    {"t5", "relative_attention_num_buckets", "4", "3"},
    {"t5", "d_kv", "1", "0"},
    {"qwen3", "head_dim", "2", "0"},
    {"llama", "rms_norm_eps", "0", "-1e-9"},
    {"llama", "rope_theta", "1e-9", "0"},
};

// The greatest values of keys that are accepted, and the next higher ones, which are rejected.
const Least greatest[] = {
    {"falcon-40b", "num_ln_in_parallel_attn", "2", "3"},
    {"falcon", "num_ln_in_parallel_attn", "1", "2"},
    {"qwen3", "head_dim", "4096", "4097"},
    {"deepseek_v2", "kv_lora_rank", "1048576", "1048577"},
    {"deepseek_v2", "q_lora_rank", "1048576", "1048577"},
    {"deepseek_v2", "qk_nope_head_dim", "4096", "4097"},
    {"deepseek_v2", "qk_rope_head_dim", "4096", "4098"},
    {"bart", "activation_dropout", "0.9", "1.0"},
    {"llama", "rms_norm_eps", "0.9", "1.0"},
    {"bert", "type_vocab_size", "1048576", "1048577"},
    {"gpt_neox", "rotary_pct", "1.0", "1.1"},
    {"stablelm", "partial_rotary_factor", "1.0", "1.1"},
};

std::string error_of(const std::string& family, const std::string& key, const std::string& value) {
  return message_of([&] { with(roomy({family, key, "", ""}), key, value); });
}

}  // namespace

TEST_CASE("where one value only is built, another is refused", "[importers]") {
  for (const Only& row : only) {
    INFO(row.family << ": " << row.key);
    json silent = file_of(row.family);
    silent.erase(row.key);
    Model read, of_null, given;
    CHECK(message_of([&] {
            read = theirs(silent);
            of_null = with(silent, row.key, "null");
            given = with(silent, row.key, row.built);
          }) == "");
    CHECK(read == given);
    CHECK(read == of_null);
    const std::string error = message_of([&] { with(silent, row.key, row.another); });
    CHECK(error.starts_with("config.json: /" + row.key + ": " + row.another + ": "));
    CHECK(error.ends_with("; set it to " + row.built));
  }
}

TEST_CASE("a key of a config.json has a least and a greatest value", "[importers]") {
  const auto check = [](const Least& row) {
    INFO(row.family << ": " << row.key);
    CHECK(error_of(row.family, row.key, row.least) == "");
    CHECK(error_of(row.family, row.key, row.refused).starts_with("config.json: /"));
  };
  for (const Least& row : least) check(row);
  for (const Least& row : greatest) check(row);
}

TEST_CASE("sizes without a default of one's expectation must be given", "[importers]") {
  struct Required {
    std::string family, key;
  };
  for (const char* family : {"mistral", "mixtral", "qwen2", "qwen3", "gpt_oss", "starcoder2",
                             "stablelm", "gemma", "gemma2", "gemma3", "llama4"})
    for (const char* key : {"intermediate_size", "num_key_value_heads"}) {
      INFO(family << ": " << key);
      json config = file_of(family);
      config.erase(key);
      CHECK(message_of([&] { theirs(config); }) ==
            std::string("config.json: /") + key + ": missing; it is required (an integer)");
    }
  for (const char* family : {"qwen3_moe", "qwen2_moe", "glm4_moe"})
    for (const char* key : {"moe_intermediate_size", "num_key_value_heads"}) {
      INFO(family << ": " << key);
      json config = file_of(family);
      config.erase(key);
      CHECK(message_of([&] { theirs(config); }) ==
            std::string("config.json: /") + key + ": missing; it is required (an integer)");
    }
  const Required others[] = {{"llama", "intermediate_size"},
                             {"phi3", "intermediate_size"},
                             {"olmo2", "intermediate_size"},
                             {"olmoe", "intermediate_size"},
                             {"granitemoe", "intermediate_size"},
                             {"nemotron", "intermediate_size"},
                             {"cohere", "intermediate_size"},
                             {"internlm2", "intermediate_size"},
                             {"deepseek_v2", "moe_intermediate_size"},
                             {"deepseek_v3", "moe_intermediate_size"},
                             {"opt", "ffn_dim"},
                             {"bert", "intermediate_size"},
                             {"roberta", "intermediate_size"},
                             {"albert", "intermediate_size"},
                             {"distilbert", "hidden_dim"},
                             {"bart", "encoder_ffn_dim"},
                             {"t5", "d_ff"},
                             {"vit", "intermediate_size"},
                             {"gpt_neox", "intermediate_size"}};
  for (const Required& row : others) {
    INFO(row.family << ": " << row.key);
    json config = file_of(row.family);
    config.erase(row.key);
    CHECK(message_of([&] { theirs(config); }) ==
          "config.json: /" + row.key + ": missing; it is required (an integer)");
  }
}

// There are two rules that scale positions, YaRN and Llama 3's. Each needs keys of its own.
TEST_CASE("scaled rotary positions have limits and defaults of their own", "[importers]") {
  const auto read = [](const json& scaling) {
    json config = file_of("llama");
    config.erase("rope_parameters");
    config["rope_scaling"] = scaling;
    return theirs(std::move(config));
  };
  const auto error = [&](const json& scaling) { return message_of([&] { read(scaling); }); };
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4},
                     {"beta_fast", 32},     {"beta_slow", 1},
                     {"truncate", true},    {"original_max_position_embeddings", 64}};
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8},
                       {"low_freq_factor", 1},
                       {"high_freq_factor", 4},
                       {"original_max_position_embeddings", 64}};
  const json linear = {{"rope_type", "linear"}, {"factor", 2}};
  const auto check = [&](json scaling, const char* key, const json& last, const json& refused) {
    INFO(scaling.dump() << ": " << key);
    scaling[key] = last;
    CHECK(error(scaling) == "");
    scaling[key] = refused;
    CHECK(error(scaling).starts_with("config.json: /rope_scaling/"));
  };
  for (const json& each : {yarn, llama3, linear}) check(each, "factor", 1e-3, 0);
  for (const json& each : {yarn, llama3}) check(each, "original_max_position_embeddings", 1, 0);
  check(yarn, "beta_fast", 1, 0.999);
  check(yarn, "beta_slow", 32, 32.1);
  check(yarn, "mscale", 0, -0.1);
  check(yarn, "mscale_all_dim", 0, -0.1);
  check(llama3, "low_freq_factor", 1e-3, 0);
  check(llama3, "low_freq_factor", 4, 4.001);
  check(llama3, "high_freq_factor", 1, 0.999);
  for (const char* key : {"beta_fast", "beta_slow", "truncate"}) {
    json silent = yarn;
    silent.erase(key);
    CHECK(read(silent) == read(yarn));
  }
  for (const char* key : {"beta_fast", "beta_slow"}) {  // numbers of turns, which must exceed 0
    json none = yarn;
    none[key] = 0;
    CHECK(read(none) == read(yarn));
  }
  const Model model = read(yarn);
  CHECK(model.rotary_yarn);
  CHECK(model.rotary_high == 32);
  CHECK(model.rotary_low == 1);
  CHECK(model.rotary_original == 64);
  // YaRN multiplies both queries and keys by 0.1 ln(factor) + 1, with factor 4.
  CHECK(model.score_factor == Approx(std::pow(0.1 * std::log(4) + 1, 2)));
  json given = yarn;
  given["attention_factor"] = 1.5;
  CHECK(read(given).score_factor == Approx(2.25));
  given = yarn;
  given["factor"] = 0.5;  // texts are not longer, so nothing is multiplied
  CHECK(read(given).score_factor == 1);
  given = yarn;
  given["mscale"] = 2, given["mscale_all_dim"] = 1;
  CHECK(read(given).score_factor ==
        Approx(std::pow((0.2 * std::log(4) + 1) / (0.1 * std::log(4) + 1), 2)));
  const Model third = read(llama3);
  CHECK_FALSE(third.rotary_yarn);
  CHECK(third.rotary_factor == 8);
  CHECK(third.rotary_low == 1);
  CHECK(third.rotary_high == 4);
  CHECK(third.rotary_original == 64);
}
