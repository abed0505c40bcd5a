// Cohere's Command R has one norm for both branches of a block, and scaled logits. Command R7B and
// Command A (cohere2) have windows, and rotary positions in blocks with a window only.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

namespace {

void read_cohere2_windows(Fields& fields, Model& model) {
  read_windows_in_turn(fields, 4, 3, 4096, model);
  turn_only_in_windows(model);
}

}  // namespace

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

constexpr ArchitectureInfo cohere2 = [] {
  ArchitectureInfo row = cohere;
  row.name = "cohere2";
  row.config.classes.generator = "Cohere2ForCausalLM";
  row.config.no_yarn = "beside blocks without rotary positions is not built; use llama3";
  row.config.keys[2] = {.read = read_cohere2_windows, .write = write_windows_in_turn};
  return row;
}();

}  // namespace meshwright::architectures::families
