// Phi-3 publishes queries, keys and values as one matrix, and the gate and the MLP's first matrix
// as another.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

constexpr ArchitectureInfo phi3 = [] {
  ArchitectureInfo row = like_llama("phi3");
  row.published_qkv = "self_attn.qkv_proj";
  row.published_gate_in = "mlp.gate_up_proj";
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{.classes = {"Phi3ForCausalLM"},
                          .rotary_share = "partial_rotary_factor",
                          .fixed = {no_pad_token},
                          .early_keys = {unusual_head_dim},
                          .keys = {window}};
  return row;
}();

}  // namespace meshwright::architectures::families
