// InternLM 2 publishes queries, keys and values as one matrix, grouped by keys.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

constexpr ArchitectureInfo internlm2 = [] {
  ArchitectureInfo row = like_llama("internlm2");
  row.embeddings.unit = row.embeddings.tokens = "model.tok_embeddings";
  row.attention = {"attention", "attention.wq", "attention.wk", "attention.wv", "attention.wo"};
  row.published_qkv = "attention.wqkv";
  row.published_by_groups = true;
  row.mlp = {"feed_forward", "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"};
  row.norms = {"attention_norm", "ffn_norm", "model.norm"};
  row.head.unit = row.head.decoder = "output";
  row.config = ConfigFile{.classes = {.generator = "InternLM2ForCausalLM", .has_classifier = false},
                          .keys = {{.key = "bias",
                                    .flags = {&Model::attention_bias, &Model::attention_out_bias},
                                    .usual = true}}};
  return row;
}();

}  // namespace meshwright::architectures::families
