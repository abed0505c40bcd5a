// Dense GLM-4: rotary positions of half of each head, and the gate and the MLP's first matrix in
// one.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

constexpr ArchitectureInfo glm = [] {
  ArchitectureInfo row = like_llama("glm");
  row.published_gate_in = "mlp.gate_up_proj";
  row.rotary_share = 0.5;
  row.traits.rotary_interleaved = true;
  row.traits.head_dim = 128;
  row.config = ConfigFile{.classes = {"GlmForCausalLM"},
                          .needs_kv_heads = true,
                          .rotary_share = "partial_rotary_factor",
                          .fixed = {no_pad_token},
                          .early_keys = {head_dim},
                          .keys = {{.key = "attention_bias", .flags = {&Model::attention_bias}}}};
  return row;
}();

// It also has norms of what attention and MLP add.
constexpr ArchitectureInfo glm4 = [] {
  ArchitectureInfo row = glm;
  row.name = "glm4";
  row.attention_out_norm = "post_self_attn_layernorm";
  row.mlp_out_norm = "post_mlp_layernorm";
  row.config.classes = {"Glm4ForCausalLM"};
  return row;
}();

}  // namespace meshwright::architectures::families
