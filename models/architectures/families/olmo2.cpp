// OLMo 2 normalizes what attention and MLP add to the residual stream.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

constexpr ArchitectureInfo olmo2 = [] {
  ArchitectureInfo row = with_head_norms(like_llama("olmo2"));
  row.branch_norm = true;
  row.norms.attention = "post_attention_layernorm";
  row.norms.mlp = "post_feedforward_layernorm";
  row.traits.query_key_norm = QueryKeyNorm::rows;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{.classes = {"Olmo2ForCausalLM"},
                          .early_keys = {unusual_head_dim},
                          .keys = {attention_bias, unwritten_mlp_bias}};
  return row;
}();

}  // namespace meshwright::architectures::families
