// StableLM has layer norms with biases, and usually rotates a quarter of each head.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

constexpr ArchitectureInfo stablelm = [] {
  ArchitectureInfo row = like_llama("stablelm");
  row.rotary_share = 0.25;
  row.traits.rms_norm = false;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{.classes = {"StableLmForCausalLM"},
                          .needs_kv_heads = true,
                          .epsilon = "layer_norm_eps",
                          .rotary_share = "partial_rotary_factor",
                          .fixed = {{"qk_layernorm", "false",
                                     "norms of heads with weights of their own are not built"}},
                          .keys = {{.key = "use_qkv_bias", .flags = {&Model::attention_bias}},
                                   {.key = "use_parallel_residual",
                                    .flags = {&Model::parallel_residual, &Model::one_norm}}}};
  return row;
}();

}  // namespace meshwright::architectures::families
