// Phi 1 and 2 have both branches of a block behind one norm, and biases everywhere.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

constexpr ArchitectureInfo phi = [] {
  ArchitectureInfo row = like_llama("phi");
  row.attention.out = "self_attn.dense";
  row.mlp = {"mlp", "mlp.fc_gate", "mlp.fc1", "mlp.fc2"};
  row.norms = {"input_layernorm", "input_layernorm", "model.final_layernorm"};
  row.head.bias = "lm_head.bias";
  row.rotary_share = 0.5;
  row.traits = {.family = Family::llama,
                .tied_embeddings = false,
                .parallel_residual = true,
                .one_norm = true,
                .activation = Activation::gelu_tanh};
  row.config = ConfigFile{.classes = {"PhiForCausalLM"},
                          .epsilon = "layer_norm_eps",
                          .activation = {older_gelu},
                          .rotary_share = "partial_rotary_factor",
                          .fixed = {{"qk_layernorm", "false",
                                     "norms of heads with weights of their own are not built"}},
                          .early_keys = {unusual_head_dim}};
  return row;
}();

}  // namespace meshwright::architectures::families
