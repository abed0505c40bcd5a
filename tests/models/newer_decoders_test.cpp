// Model types of transformers 5 that are built from rows like others: each of a small
// configuration, as transformers writes it, has the parameters that transformers counts, and
// comes back from the config.json that is written for it.
#include <nlohmann/json.hpp>

#include "models/architectures/huggingface_config.h"
#include "models/architectures/unbuilt_types.h"
#include "tests/models/imported.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

struct CountedConfig {
  const char* config;
  std::int64_t parameters;  // transformers 5.24, without buffers and biases for the choice
};

// clang-format off
const CountedConfig counted_configs[] = {
    {R"({"model_type": "helium", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 100000.0})", 39'200},
    {R"({"model_type": "cwm", "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"], "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "rope_parameters": {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_theta": 1000000.0, "rope_type": "llama3"}, "sliding_window": 8, "tie_word_embeddings": false, "vocab_size": 128})", 39'200},
    {R"({"model_type": "seed_oss", "attention_bias": true, "attention_out_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 39'456},
    {R"({"model_type": "hunyuan_v1_dense", "attention_bias": false, "eod_token_id": 3, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 39'264},
    {R"({"model_type": "arcee", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 33'056},
    {R"({"model_type": "jais2", "attention_bias": true, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": true, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 34'048},
    {R"({"model_type": "granite", "attention_bias": false, "attention_multiplier": 0.2, "embedding_multiplier": 3.0, "hidden_size": 32, "intermediate_size": 48, "logits_scaling": 2.0, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "residual_multiplier": 0.5, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 39'200},
    {R"({"model_type": "hyperclovax", "attention_bias": false, "attention_multiplier": 0.2, "embedding_multiplier": 3.0, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "logits_scaling": 2.0, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "residual_multiplier": 0.5, "tie_word_embeddings": false, "use_post_norm": true, "vocab_size": 128, "rope_theta": 10000.0})", 39'456},
    {R"({"model_type": "granite_swa", "attention_bias": false, "attention_multiplier": 0.3, "embedding_multiplier": 1.0, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"], "logits_scaling": 1.0, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "residual_multiplier": 1.0, "sliding_window": 8, "tie_word_embeddings": true, "vocab_size": 128, "rope_theta": 10000.0})", 35'120},
    {R"({"model_type": "granitemoeshared", "attention_bias": false, "attention_multiplier": 1.0, "embedding_multiplier": 1.0, "hidden_size": 32, "intermediate_size": 48, "logits_scaling": 1.0, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_local_experts": 4, "residual_multiplier": 0.5, "shared_intermediate_size": 20, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 102'688},
    {R"({"model_type": "granitemoe_swa", "attention_bias": false, "attention_multiplier": 1.0, "embedding_multiplier": 1.0, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"], "logits_scaling": 1.0, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_local_experts": 4, "residual_multiplier": 1.0, "shared_intermediate_size": 20, "sliding_window": 8, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 102'704},
    {R"({"model_type": "glm", "attention_bias": true, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0, "partial_rotary_factor": 0.5})", 39'456},
    {R"({"model_type": "glm4", "attention_bias": true, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0, "partial_rotary_factor": 0.5})", 39'712},
    {R"({"model_type": "smollm3", "attention_bias": false, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"], "mlp_bias": false, "no_rope_layer_interval": 4, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "sliding_window": null, "tie_word_embeddings": true, "vocab_size": 128, "rope_theta": 2000000.0})", 35'104},
    {R"({"model_type": "ernie4_5", "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": true, "use_bias": false, "vocab_size": 128, "rope_theta": 500000.0})", 35'104},
    {R"({"model_type": "ernie4_5_moe", "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 24, "moe_k": 2, "moe_layer_end_index": 3, "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_num_experts": 4, "moe_num_shared_experts": 1, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": true, "use_bias": false, "vocab_size": 128, "rope_theta": 500000.0})", 56'224},
    {R"({"model_type": "olmo3", "attention_bias": false, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "rope_parameters": {"full_attention": {"rope_theta": 500000.0, "rope_type": "default"}, "sliding_attention": {"rope_theta": 500000.0, "rope_type": "default"}}, "sliding_window": 8, "tie_word_embeddings": false, "vocab_size": 128})", 39'392},
    {R"({"model_type": "flex_olmo", "attention_bias": false, "hidden_size": 32, "intermediate_size": 48, "norm_topk_prob": false, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 500000.0})", 95'200},
    {R"({"model_type": "exaone4", "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "sliding_window": 8, "sliding_window_pattern": 4, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 39'264},
    {R"({"model_type": "exaone_moe", "first_k_dense_replace": 1, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "moe_intermediate_size": 24, "n_group": 1, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_shared_experts": 1, "routed_scaling_factor": 2.5, "sliding_window": 8, "sliding_window_pattern": 4, "tie_word_embeddings": false, "topk_group": 1, "vocab_size": 128, "rope_theta": 10000.0})", 60'384},
    {R"({"model_type": "cohere2", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "logit_scale": 0.0625, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "sliding_window": 8, "tie_word_embeddings": true, "vocab_size": 128, "rope_theta": 10000.0})", 34'976},
    {R"({"model_type": "phi", "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "qk_layernorm": false, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0, "partial_rotary_factor": 0.5})", 33'920},
    {R"({"model_type": "vaultgemma", "attention_bias": false, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"], "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "query_pre_attn_scalar": 8, "sliding_window": 8, "tie_word_embeddings": true, "vocab_size": 128, "rope_theta": 10000.0})", 35'104},
    {R"({"model_type": "openai-gpt", "n_embd": 32, "n_head": 4, "n_layer": 3, "n_positions": 64, "tie_word_embeddings": true, "vocab_size": 128})", 44'256},
    {R"({"model_type": "codegen", "n_embd": 64, "n_head": 8, "n_inner": null, "n_layer": 3, "n_positions": 64, "rotary_dim": 4, "tie_word_embeddings": false, "vocab_size": 128})", 165'440},
    {R"({"model_type": "biogpt", "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 64, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "scale_embedding": true, "tie_word_embeddings": true, "vocab_size": 128})", 36'288},
    {R"({"model_type": "minimax_m2", "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_local_experts": 4, "rotary_dim": 4, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 5000000.0, "partial_rotary_factor": 0.5})", 95'200},
    {R"({"model_type": "youtu", "attention_bias": false, "head_dim": 4, "hidden_size": 32, "intermediate_size": 48, "kv_lora_rank": 16, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 4, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "rope_interleave": true, "tie_word_embeddings": true, "v_head_dim": 8, "vocab_size": 128, "rope_theta": 10000.0})", 37'520},
    {R"({"model_type": "minicpm3", "attention_bias": false, "dim_model_base": 16, "head_dim": 4, "hidden_size": 32, "intermediate_size": 48, "kv_lora_rank": 16, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 4, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "scale_depth": 1.4, "scale_emb": 3, "tie_word_embeddings": true, "v_head_dim": 8, "vocab_size": 128, "rope_theta": 10000.0})", 37'520},
    {R"({"model_type": "dots1", "attention_bias": false, "first_k_dense_replace": 1, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"], "moe_intermediate_size": 24, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "routed_scaling_factor": 1.0, "sliding_window": 4096, "tie_word_embeddings": false, "topk_group": 1, "vocab_size": 128, "rope_theta": 10000.0})", 60'384},
    {R"({"model_type": "hy_v3", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": false, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "moe_intermediate_size": 24, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_shared_experts": 1, "router_scaling_factor": 2.826, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 11158840.0})", 60'384},
    {R"({"model_type": "solar_open", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 24, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "routed_scaling_factor": 1.0, "tie_word_embeddings": false, "topk_group": 1, "vocab_size": 128, "rope_theta": 1000000.0})", 67'360},
    {R"({"model_type": "glm4_moe_lite", "attention_bias": false, "hidden_size": 32, "intermediate_size": 48, "kv_lora_rank": 16, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "moe_intermediate_size": 24, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 4, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "rope_interleave": true, "routed_scaling_factor": 1.8, "tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 8, "vocab_size": 128, "rope_theta": 10000.0})", 62'736},
    {R"({"model_type": "mellum", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"], "mlp_layer_types": ["sparse", "sparse", "sparse", "sparse"], "moe_intermediate_size": 24, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_local_experts": 4, "rope_parameters": {"full_attention": {"rope_theta": 500000.0, "rope_type": "default"}, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}, "sliding_window": 1024, "tie_word_embeddings": false, "vocab_size": 128})", 58'208},
    {R"({"model_type": "mpt", "d_model": 32, "expansion_ratio": 4, "logit_scale": null, "max_seq_len": 64, "n_heads": 4, "n_layers": 3, "no_bias": true, "tie_word_embeddings": true, "vocab_size": 128})", 41'184},
    {R"({"model_type": "sarvam_moe", "attention_bias": false, "first_k_dense_replace": 1, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 24, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "routed_scaling_factor": 2.5, "tie_word_embeddings": false, "topk_group": 1, "use_qk_norm": true, "vocab_size": 128, "rope_theta": 8000000.0, "partial_rotary_factor": 1.0})", 60'384},
    {R"({"model_type": "sarvam_mla", "attention_bias": false, "first_k_dense_replace": 1, "head_dim": 4, "hidden_size": 32, "intermediate_size": 48, "kv_lora_rank": 16, "moe_intermediate_size": 24, "n_group": 1, "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 4, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "rope_interleave": true, "routed_scaling_factor": 2.5, "tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 8, "vocab_size": 128, "rope_theta": 10000.0})", 90'768},
    {R"({"model_type": "exaone", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 500000.0})", 39'200},
    {R"({"model_type": "internlm3", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 39'200},
    {R"({"model_type": "iquestcoder", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": false, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 39'200},
    {R"({"model_type": "ministral3", "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 128, "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "llama_4_scaling_beta": 0.3, "max_position_embeddings": 32, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 8, "rope_theta": 10000.0, "rope_type": "yarn"}})", 39'200},
    {R"({"model_type": "bitnet", "attention_bias": false, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 500000.0})", 39'520},
    {R"({"model_type": "hunyuan_v1_moe", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "moe_topk": 2, "num_attention_heads": 4, "num_experts": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 113'504},
    {R"({"model_type": "cohere2_moe", "attention_bias": false, "expert_selection_fn": "sigmoid", "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"], "logit_scale": 0.5, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "norm_topk_prob": true, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_shared_experts": 1, "prefix_dense_intermediate_size": 40, "prefix_dense_sliding_window_pattern": 1, "rms_norm_eps": 1e-05, "shared_expert_combination_strategy": "average", "sliding_window": 8, "tie_word_embeddings": true, "vocab_size": 128, "rope_theta": 10000.0})", 89'888},
    {R"({"model_type": "gpt_neox_japanese", "hidden_size": 32, "intermediate_multiple_size": 2, "num_attention_heads": 4, "num_hidden_layers": 4, "tie_word_embeddings": true, "vocab_size": 128, "rotary_emb_base": 10000.0, "rotary_pct": 1.0})", 37'472},
    {R"({"model_type": "axk1", "attention_bias": false, "head_dim": 4, "hidden_size": 32, "intermediate_size": 48, "kv_lora_rank": 16, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "moe_intermediate_size": 24, "n_group": 2, "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 4, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "rope_interleave": true, "routed_scaling_factor": 2.5, "tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 8, "vocab_size": 128, "rope_theta": 10000.0})", 62'832},
    {R"({"model_type": "aria_text", "attention_bias": false, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "mlp_bias": false, "moe_num_experts": 4, "moe_num_shared_experts": 2, "moe_topk": 2, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 131'872},
    {R"({"model_type": "afmoe", "attention_bias": false, "global_attn_every_n_layers": 2, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"], "moe_intermediate_size": 24, "mup_enabled": true, "num_attention_heads": 4, "num_dense_layers": 1, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_shared_experts": 2, "route_scale": 1.7, "sliding_window": 8, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 71'648},
    {R"({"model_type": "kolibri1", "head_dim": 8, "hidden_size": 32, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"], "moe_intermediate_size": 24, "norm_topk_prob": false, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 5, "num_key_value_heads": 2, "num_local_experts": 4, "shared_expert_intermediate_size": 20, "sliding_window": 8, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 80'624},
    {R"({"model_type": "modernbert-decoder", "attention_bias": false, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"], "local_attention": 16, "mlp_bias": false, "norm_bias": true, "num_attention_heads": 4, "num_hidden_layers": 4, "sliding_window": 8, "tie_word_embeddings": true, "vocab_size": 128, "rope_parameters": {"full_attention": {"rope_theta": 160000.0, "rope_type": "default"}, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}})", 40'704},
    {R"({"model_type": "flint", "attention_bias": false, "decoder_sparse_step": 1, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48, "layer_types": ["full_attention", "full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "full_attention"], "mlp_only_layers": [0, 1], "moe_intermediate_size": 24, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 7, "num_key_value_heads": 2, "shared_expert_intermediate_size": 20, "sliding_window": 8, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 95'852},
    {R"({"model_type": "nanochat", "attention_bias": false, "final_logit_softcapping": 15.0, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 32'768},
    {R"({"model_type": "olmo", "attention_bias": false, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 128, "rope_theta": 10000.0})", 38'912},
};
// clang-format on

json counted_config(const std::string& type) {
  for (const CountedConfig& row : counted_configs) {
    json config = parse_json(row.config, "row");
    if (config["model_type"] == type) return config;
  }
  FAIL("no row " << type);
  return {};
}

}  // namespace

TEST_CASE("decoders of transformers 5 have its parameters and come back", "[models][importers]") {
  for (const CountedConfig& row : counted_configs) {
    const json config = parse_json(row.config, "row");
    INFO(config["model_type"].get<std::string>());
    const Model model = theirs(config);
    CHECK(parameter_count(graph_of(model)) == row.parameters);
    Model back = theirs(huggingface_config(model));
    back.name = model.name;
    back.positions = model.positions;
    CHECK(back == model);
  }
}

TEST_CASE("windows and rotary positions of newer decoders", "[models][importers]") {
  const Model cohere = theirs(counted_config("cohere2"));
  CHECK(cohere.window_of(0) == 8);
  CHECK(cohere.window_of(3) == 0);
  CHECK(cohere.has_rotary(2));
  CHECK_FALSE(cohere.has_rotary(3));
  const Model cwm = theirs(counted_config("cwm"));
  CHECK(cwm.window_of(0) == 0);
  CHECK(cwm.window_of(1) == 8);
  CHECK(cwm.has_rotary(0));
  json exaone = counted_config("exaone4");
  CHECK_FALSE(theirs(exaone).has_rotary(3));
  exaone["sliding_window"] = nullptr;
  exaone["layer_types"] =
      json::array({"full_attention", "full_attention", "full_attention", "full_attention"});
  CHECK(theirs(exaone).has_rotary(3));
  exaone.erase("layer_types");
  exaone["sliding_window"] = 8;
  exaone["sliding_window_pattern"] = "LLG";
  CHECK(theirs(exaone).window_of(2) == 0);
  CHECK(theirs(exaone).window_of(3) == 8);
  exaone["sliding_window_pattern"] = "LGG";
  CHECK(message_of([&] { theirs(exaone); }) ==
        "config.json: /sliding_window_pattern: 'LGG': one block without a window (G) in turn is "
        "built");
  const Model smol = theirs(counted_config("smollm3"));
  CHECK(smol.unrotated_blocks == std::vector<int>{3});
  json olmo = counted_config("olmo3");
  olmo["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "yarn"},
        {"rope_theta", 5e5},
        {"factor", 8.0},
        {"original_max_position_embeddings", 16}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  CHECK(theirs(olmo).rotary_yarn);
  CHECK(theirs(olmo).local_rotary_base == 1e4);
}

TEST_CASE("the first and the last blocks may have no windows", "[models][importers]") {
  json flint = counted_config("flint");
  flint.erase("layer_types");
  flint["num_hidden_layers"] = 9;
  const Model model = theirs(flint);
  std::string windows;
  for (int block = 0; block < model.layers; ++block)
    windows += model.window_of(block) > 0 ? model.has_rotary(block) ? 'w' : '?' : '-';
  CHECK(windows == "--www-ww-");
  flint["layer_types"] = json::array();
  for (const char kind : std::string("-w-w--www"))
    flint["layer_types"].push_back(kind == 'w' ? "sliding_attention" : "full_attention");
  CHECK(message_of([&] { theirs(flint); }).find("other orders are not built") != std::string::npos);
}

TEST_CASE("queries of Ministral 3 grow in blocks with rotary positions", "[models][importers]") {
  const Model model = theirs(counted_config("ministral3"));
  Training training = training_of(1, 9);  // one place more than the floor
  const auto turns = [&] { return nodes_of(build_graph(model, training), Op::rope); };
  CHECK(turns() == 3 * model.layers);
  training.sequence_length = 8;
  CHECK(turns() == 2 * model.layers);
}

TEST_CASE("parts of newer decoders that only some blocks have", "[models][importers]") {
  const Graph japanese = graph_of(theirs(counted_config("gpt_neox_japanese")));
  CHECK(has_parameter(japanese, "gpt_neox_japanese.layers.3.attention.dense_bias"));
  CHECK_FALSE(has_parameter(japanese, "gpt_neox_japanese.layers.2.attention.dense_bias"));
  const Graph modern = graph_of(theirs(counted_config("modernbert-decoder")));
  CHECK_FALSE(has_parameter(modern, "model.layers.0.attn_norm.weight"));
  CHECK(has_parameter(modern, "model.layers.1.attn_norm.weight"));
  const Graph axk1 = graph_of(theirs(counted_config("axk1")));
  CHECK_FALSE(has_parameter(axk1, "model.layers.0.post_mlp_layernorm.weight"));
  CHECK(has_parameter(axk1, "model.layers.1.post_mlp_layernorm.weight"));
  const Graph olmo = graph_of(theirs(counted_config("olmo")));
  CHECK_FALSE(parameter(olmo, "model.norm.weight").trainable);
}

TEST_CASE("keys of newer decoders that cannot be built", "[models][importers]") {
  const auto error = [](const char* type, const char* key, const json& value) {
    json config = counted_config(type);
    config[key] = value;
    return message_of([&] { theirs(config); });
  };
  CHECK(error("bitnet", "quantization_config", {{"quant_method", "bitnet"}}) ==
        "config.json: /quantization_config: {\"quant_method\":\"bitnet\"}: products of ternary "
        "weights and 8-bit activations are not built; set it to null");
  CHECK(error("olmo", "clip_qkv", 8.0) ==
        "config.json: /clip_qkv: 8.0: queries, keys and values that are clipped are not built; set "
        "it to null");
  CHECK(error("hunyuan_v1_moe", "num_experts", json::array({2, 4, 4, 4})) ==
        "config.json: /num_experts: blocks with several numbers of experts are not built; use one "
        "number");
  CHECK(error("cohere2_moe", "expert_selection_fn", "tanh").find("softmax") != std::string::npos);
  json mean = counted_config("cohere2_moe");
  CHECK(theirs(mean).shared_mean);
  mean["shared_expert_combination_strategy"] = "sum";
  CHECK_FALSE(theirs(mean).shared_mean);
}

TEST_CASE("a model type that is not built is told with what it needs", "[models][importers]") {
  const std::string road =
      "; `meshwright capture` makes a model of its PyTorch code (docs/own-model.md)";
  CHECK(error_with("gpt2", "model_type", "mamba2") ==
        "config.json: /model_type: 'mamba2' needs layers of state spaces (Mamba), which meshwright "
        "lacks" +
            road);
  CHECK(error_with("gpt2", "model_type", "lama") ==
        "config.json: /model_type: unknown model_type 'lama', did you mean 'llama'?" + road +
            "; docs/models.md lists the model types that are built");
  CHECK(error_with("gpt2", "text_config", {{"model_type", "qwen3_5_text"}}) == "");
  json seen = {{"model_type", "qwen3_5"}, {"text_config", {{"model_type", "qwen3_5_text"}}}};
  CHECK(message_of([&] { theirs(seen); }) ==
        "config.json: /text_config/model_type: 'qwen3_5_text' needs layers of linear attention "
        "(the gated delta rule), which meshwright lacks" +
            road);
  seen["text_config"] = counted_config("olmo");
  CHECK(theirs(seen).name == "olmo of qwen3_5");
  CHECK(error_with("bart-base", "architectures", json::array({"BartForCausalLM"})) ==
        "config.json: /architectures: BartForCausalLM: a decoder of two stacks without its encoder "
        "is not built");
  for (const UnbuiltType& row : unbuilt_types)
    CHECK(error_with("gpt2", "model_type", std::string(row.model_type)).find(row.lacks) !=
          std::string::npos);
  json internlm = counted_config("internlm3");
  internlm["qkv_bias"] = true;
  CHECK(message_of([&] { theirs(internlm); }).find("say biases by attention_bias") !=
        std::string::npos);
}
