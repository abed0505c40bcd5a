// Cohere's Command R has one norm for both branches of a block, and scaled logits.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

constexpr ArchitectureInfo cohere = [] {
  ArchitectureInfo row = like_llama("cohere");
  row.traits.tied_embeddings = true;
  row.traits.rms_norm = row.traits.norm_bias = false;
  row.traits.parallel_residual = row.traits.one_norm = true;
  row.traits.rotary_interleaved = true;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{
      .classes = {.generator = "CohereForCausalLM", .has_classifier = false},
      .epsilon = "layer_norm_eps",
      .fixed = {{"use_qk_norm", "false", "norms of heads with weights of their own are not built",
                 true}},
      .early_keys = {unusual_head_dim},
      .keys = {attention_bias,
               {.key = "logit_scale", .positive = &Model::logit_scale, .usual = 0.0625}}};
  return row;
}();

}  // namespace meshwright::architectures::families
