// Rows of the table of architectures for newer decoders of one stack. Most of them have Llama's
// names.
#pragma once

#include "models/architectures/architecture.h"

namespace meshwright::decoders {

// Returns a row with Llama's names, and with the RMSNorms and the gated MLP that most decoders
// have.
constexpr ArchitectureInfo like_llama(Architecture architecture, std::string_view name) {
  ArchitectureInfo row{.architecture = architecture,
                       .name = name,
                       .embedding_unit = "model.embed_tokens",
                       .tokens = "model.embed_tokens",
                       .block = "model.layers",
                       .attention = "self_attn",
                       .q = "self_attn.q_proj",
                       .k = "self_attn.k_proj",
                       .v = "self_attn.v_proj",
                       .attention_out = "self_attn.o_proj",
                       .mlp = "mlp",
                       .mlp_gate = "mlp.gate_proj",
                       .mlp_in = "mlp.up_proj",
                       .mlp_out = "mlp.down_proj",
                       .attention_norm = "input_layernorm",
                       .mlp_norm = "post_attention_layernorm",
                       .final_norm = "model.norm",
                       .head = "lm_head",
                       .head_decoder = "lm_head"};
  row.traits = {.family = Family::llama,
                .tied = false,
                .gated_ffn = true,
                .rms_norm = true,
                .biases = false,
                .attention_bias = false,
                .attention_out_bias = false,
                .epsilon = 1e-6,
                .rotary_share = 1};
  return row;
}

constexpr ArchitectureInfo qwen2() {
  ArchitectureInfo row = like_llama(Architecture::qwen2, "qwen2");
  row.traits.attention_bias = true;
  return row;
}

constexpr ArchitectureInfo starcoder2() {
  ArchitectureInfo row = like_llama(Architecture::starcoder2, "starcoder2");
  row.mlp_in = "mlp.c_fc";
  row.mlp_out = "mlp.c_proj";
  row.traits = {.family = Family::llama, .gelu_tanh = true, .rotary_share = 1};
  return row;
}

constexpr ArchitectureInfo stablelm() {
  ArchitectureInfo row = like_llama(Architecture::stablelm, "stablelm");
  row.traits.rms_norm = false;
  row.traits.epsilon = 1e-5;
  row.traits.rotary_share = 0.25;
  return row;
}

constexpr ArchitectureInfo opt() {
  ArchitectureInfo row = like_llama(Architecture::opt, "opt");
  row.embedding_unit = row.tokens = "model.decoder.embed_tokens";
  row.positions = "model.decoder.embed_positions";
  row.block = "model.decoder.layers";
  row.attention_out = "self_attn.out_proj";
  row.mlp_gate = "fc_gate";
  row.mlp_in = "fc1";
  row.mlp_out = "fc2";
  row.attention_norm = "self_attn_layer_norm";
  row.mlp_norm = "final_layer_norm";
  row.final_norm = "model.decoder.final_layer_norm";
  row.traits = {
      .family = Family::llama, .learned_positions = true, .relu = true, .position_offset = 2};
  return row;
}

constexpr ArchitectureInfo phi3() {
  ArchitectureInfo row = like_llama(Architecture::phi3, "phi3");
  row.published_qkv = "self_attn.qkv_proj";
  row.published_gate_in = "mlp.gate_up_proj";
  row.traits.epsilon = 1e-5;
  return row;
}

constexpr ArchitectureInfo gemma() {
  ArchitectureInfo row = like_llama(Architecture::gemma, "gemma");
  row.traits.tied = true;
  row.traits.gated_gelu = row.traits.gelu_tanh = true;
  row.traits.one_plus_norms = true;
  return row;
}

constexpr ArchitectureInfo gemma2() {
  ArchitectureInfo row = gemma();
  row.architecture = Architecture::gemma2;
  row.name = "gemma2";
  row.attention_out_norm = "post_attention_layernorm";
  row.mlp_norm = "pre_feedforward_layernorm";
  row.mlp_out_norm = "post_feedforward_layernorm";
  return row;
}

constexpr ArchitectureInfo gemma3() {
  ArchitectureInfo row = gemma2();
  row.architecture = Architecture::gemma3_text;
  row.name = "gemma3_text";
  row.q_norm = "self_attn.q_norm";
  row.k_norm = "self_attn.k_norm";
  row.traits.query_key_norm = QueryKeyNorm::heads;
  return row;
}

constexpr ArchitectureInfo olmo2() {
  ArchitectureInfo row = like_llama(Architecture::olmo2, "olmo2");
  row.q_norm = "self_attn.q_norm";
  row.k_norm = "self_attn.k_norm";
  row.branch_norm = true;
  row.attention_norm = "post_attention_layernorm";
  row.mlp_norm = "post_feedforward_layernorm";
  row.traits.query_key_norm = QueryKeyNorm::rows;
  row.traits.epsilon = 1e-5;
  return row;
}

constexpr ArchitectureInfo qwen3() {
  ArchitectureInfo row = like_llama(Architecture::qwen3, "qwen3");
  row.q_norm = "self_attn.q_norm";
  row.k_norm = "self_attn.k_norm";
  row.traits.query_key_norm = QueryKeyNorm::heads;
  return row;
}

// Returns `row` with experts in place of the MLP. The matrices of each expert have the names of the
// MLP's matrices.
constexpr ArchitectureInfo with_experts(ArchitectureInfo row, Architecture architecture,
                                        std::string_view name) {
  row.architecture = architecture;
  row.name = name;
  row.router = "mlp.gate";
  row.mlp_gate = "mlp.experts.*.gate_proj";
  row.mlp_in = "mlp.experts.*.up_proj";
  row.mlp_out = "mlp.experts.*.down_proj";
  row.traits.family = Family::mixtral;
  return row;
}

constexpr ArchitectureInfo qwen3_moe() {
  ArchitectureInfo row = with_experts(qwen3(), Architecture::qwen3_moe, "qwen3_moe");
  row.traits.experts = 128;
  row.traits.experts_per_token = 8;
  return row;
}

constexpr ArchitectureInfo qwen2_moe() {
  ArchitectureInfo row = with_experts(qwen2(), Architecture::qwen2_moe, "qwen2_moe");
  row.shared_experts = "mlp.shared_expert";
  row.shared_gate = "mlp.shared_expert_gate";
  row.traits.experts = 60;
  row.traits.experts_per_token = 4;
  return row;
}

constexpr ArchitectureInfo olmoe() {
  ArchitectureInfo row =
      with_experts(like_llama(Architecture::olmoe, "olmoe"), Architecture::olmoe, "olmoe");
  row.q_norm = "self_attn.q_norm";
  row.k_norm = "self_attn.k_norm";
  row.traits.query_key_norm = QueryKeyNorm::rows;
  row.traits.epsilon = 1e-5;
  row.traits.experts = 64;
  row.traits.experts_per_token = 8;
  return row;
}

constexpr ArchitectureInfo granitemoe() {
  ArchitectureInfo row = with_experts(like_llama(Architecture::granitemoe, "granitemoe"),
                                      Architecture::granitemoe, "granitemoe");
  row.mlp = "block_sparse_moe";
  row.router = "block_sparse_moe.router.layer";
  row.mlp_gate = "block_sparse_moe.gate_linear";
  row.mlp_in = "block_sparse_moe.up_linear";
  row.mlp_out = "block_sparse_moe.output_linear";
  row.published_expert_gate_in = "block_sparse_moe.input_linear";
  row.traits.experts = 8;
  row.traits.experts_per_token = 2;
  return row;
}

// gpt-oss has attention sinks, windows in every other block, biases in attention and experts, and a
// clamped gate.
constexpr ArchitectureInfo gpt_oss() {
  ArchitectureInfo row =
      with_experts(like_llama(Architecture::gpt_oss, "gpt_oss"), Architecture::gpt_oss, "gpt_oss");
  row.sinks = "self_attn.sinks";
  row.router = "mlp.router";
  row.mlp_gate = "mlp.experts.gate_proj";
  row.mlp_in = "mlp.experts.up_proj";
  row.mlp_out = "mlp.experts.down_proj";
  row.published_expert_gate_in = "mlp.experts.gate_up_proj";
  row.bare_experts = row.experts_in_turn = true;
  row.traits.attention_bias = row.traits.attention_out_bias = true;
  row.traits.epsilon = 1e-5;
  row.traits.experts = 128;
  row.traits.experts_per_token = 4;
  return row;
}

// Llama 4 has blocks without rotary positions among blocks that attend to chunks. The router's
// weights multiply the inputs of its experts, and one more expert reads all tokens.
constexpr ArchitectureInfo llama4() {
  ArchitectureInfo row = with_experts(like_llama(Architecture::llama4_text, "llama4_text"),
                                      Architecture::llama4_text, "llama4_text");
  row.q_norm = row.k_norm = "self_attn.qk_norm";  // without weights
  row.mlp = "feed_forward";
  row.router = "feed_forward.router";
  row.mlp_gate = "feed_forward.experts.gate_proj";
  row.mlp_in = "feed_forward.experts.up_proj";
  row.mlp_out = "feed_forward.experts.down_proj";
  row.published_expert_gate_in = "feed_forward.experts.gate_up_proj";
  row.bare_experts = true;
  row.shared_experts = "feed_forward.shared_expert";
  row.traits.epsilon = 1e-5;
  row.traits.rotary_interleaved = true;
  row.traits.experts = 16;
  row.traits.experts_per_token = 1;
  return row;
}

// glm4_moe has sigmoid scores, groups of experts, a bias for the choice of experts, shared experts,
// and first blocks without experts.
constexpr ArchitectureInfo glm4_moe() {
  ArchitectureInfo row = with_experts(like_llama(Architecture::glm4_moe, "glm4_moe"),
                                      Architecture::glm4_moe, "glm4_moe");
  row.q_norm = "self_attn.q_norm";
  row.k_norm = "self_attn.k_norm";
  row.router_bias = "e_score_correction_bias";
  row.shared_experts = "mlp.shared_experts";
  row.traits.epsilon = 1e-5;
  row.traits.experts = 128;
  row.traits.experts_per_token = 8;
  row.traits.rotary_share = 0.5;
  return row;
}

// DeepSeek-V2 and V3 have multi-head latent attention. build_attention.cpp has the names of its
// matrices.
constexpr ArchitectureInfo deepseek(Architecture architecture, std::string_view name) {
  ArchitectureInfo row = with_experts(like_llama(architecture, name), architecture, name);
  row.shared_experts = "mlp.shared_experts";
  if (architecture == Architecture::deepseek_v3) row.router_bias = "e_score_correction_bias";
  row.traits.experts = architecture == Architecture::deepseek_v3 ? 256 : 64;
  row.traits.experts_per_token = 8;
  row.traits.rotary_interleaved = true;
  return row;
}

constexpr ArchitectureInfo nemotron() {
  ArchitectureInfo row = like_llama(Architecture::nemotron, "nemotron");
  row.traits.gated_ffn = row.traits.rms_norm = false;
  row.traits.squared_relu = row.traits.one_plus_norms = true;
  row.traits.epsilon = 1e-5;
  row.traits.rotary_share = 0.5;
  return row;
}

constexpr ArchitectureInfo falcon(Architecture architecture) {
  ArchitectureInfo row = like_llama(architecture, "falcon");
  row.embedding_unit = row.tokens = "transformer.word_embeddings";
  row.block = "transformer.h";
  row.attention = "self_attention";
  row.q = "self_attention.query";
  row.k = "self_attention.key";
  row.v = "self_attention.value";
  row.published_qkv = "self_attention.query_key_value";
  row.published_by_groups = true;
  row.attention_out = "self_attention.dense";
  row.mlp_gate = "mlp.dense_gate";
  row.mlp_in = "mlp.dense_h_to_4h";
  row.mlp_out = "mlp.dense_4h_to_h";
  if (architecture == Architecture::falcon_two_norms) {
    row.attention_norm = "ln_attn";
    row.mlp_norm = "ln_mlp";
  }
  row.final_norm = "transformer.ln_f";
  row.traits = {.family = Family::llama,
                .parallel_residual = true,
                .one_norm = architecture == Architecture::falcon,
                .biases = false,
                .attention_bias = false,
                .attention_out_bias = false,
                .rotary_share = 1};
  return row;
}

constexpr ArchitectureInfo gpt_bigcode() {
  ArchitectureInfo row = like_llama(Architecture::gpt_bigcode, "gpt_bigcode");
  row.embedding_unit = row.tokens = "transformer.wte";
  row.positions = "transformer.wpe";
  row.block = "transformer.h";
  row.attention = "attn";
  row.q = "attn.c_q";
  row.k = "attn.c_k";
  row.v = "attn.c_v";
  row.published_qkv = "attn.c_attn";
  row.published_by_groups = true;
  row.attention_out = "attn.c_proj";
  row.mlp_gate = "mlp.c_gate";
  row.mlp_in = "mlp.c_fc";
  row.mlp_out = "mlp.c_proj";
  row.attention_norm = "ln_1";
  row.mlp_norm = "ln_2";
  row.final_norm = "transformer.ln_f";
  row.traits = {.family = Family::llama, .learned_positions = true, .gelu_tanh = true};
  return row;
}

constexpr ArchitectureInfo cohere() {
  ArchitectureInfo row = like_llama(Architecture::cohere, "cohere");
  row.traits.tied = true;
  row.traits.rms_norm = row.traits.norm_bias = false;
  row.traits.parallel_residual = row.traits.one_norm = true;
  row.traits.rotary_interleaved = true;
  row.traits.epsilon = 1e-5;
  return row;
}

constexpr ArchitectureInfo internlm2() {
  ArchitectureInfo row = like_llama(Architecture::internlm2, "internlm2");
  row.embedding_unit = row.tokens = "model.tok_embeddings";
  row.attention = "attention";
  row.q = "attention.wq";
  row.k = "attention.wk";
  row.v = "attention.wv";
  row.published_qkv = "attention.wqkv";
  row.published_by_groups = true;
  row.attention_out = "attention.wo";
  row.mlp = "feed_forward";
  row.mlp_gate = "feed_forward.w1";
  row.mlp_in = "feed_forward.w3";
  row.mlp_out = "feed_forward.w2";
  row.attention_norm = "attention_norm";
  row.mlp_norm = "ffn_norm";
  row.head = row.head_decoder = "output";
  return row;
}

}  // namespace meshwright::decoders
