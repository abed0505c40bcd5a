// Makes rows to begin with, because most decoders of one stack have Llama's names.
#pragma once

#include "models/architectures/families/config_keys.h"

namespace meshwright::architectures::families {

// Returns a row of the table of architectures. The row has the module names of Llama's checkpoints,
// and the RMSNorms and the gated MLP that most decoders have.
constexpr ArchitectureInfo like_llama(std::string_view name) {
  ArchitectureInfo row{.name = name,
                       .embeddings = {"model.embed_tokens", "model.embed_tokens"},
                       .attention = {"self_attn", "self_attn.q_proj", "self_attn.k_proj",
                                     "self_attn.v_proj", "self_attn.o_proj"},
                       .mlp = {"mlp", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"},
                       .norms = {"input_layernorm", "post_attention_layernorm", "model.norm"},
                       .block = "model.layers",
                       .rotary_share = 1};
  row.traits = {.family = Family::llama,
                .tied_embeddings = false,
                .gated_ffn = true,
                .rms_norm = true,
                .biases = false,
                .attention_bias = false,
                .attention_out_bias = false,
                .activation = Activation::silu,
                .norm_epsilon = 1e-6};
  return row;
}

// Returns `row` with the names of a norm of queries and one of keys.
constexpr ArchitectureInfo with_head_norms(ArchitectureInfo row) {
  row.q_norm = "self_attn.q_norm";
  row.k_norm = "self_attn.k_norm";
  return row;
}

// Returns `row` with experts in place of the MLP: how many there are, and how many a token goes to,
// if a file does not say it. The matrices of each expert have the names of the MLP's matrices.
constexpr ArchitectureInfo with_experts(ArchitectureInfo row, int experts, int experts_per_token) {
  row.router = "mlp.gate";
  row.mlp = {"mlp", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj"};
  row.traits.family = Family::mixtral;
  row.traits.experts = experts;
  row.traits.experts_per_token = experts_per_token;
  return row;
}

}  // namespace meshwright::architectures::families
