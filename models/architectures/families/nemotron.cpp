// Nemotron, Arcee and Jais 2 have an MLP without a gate whose activation is the square of relu.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

namespace {

constexpr ActivationWord nemotron_words[] = {{"relu2", Activation::squared_relu}};

}  // namespace

constexpr ArchitectureInfo nemotron = [] {
  ArchitectureInfo row = like_llama("nemotron");
  row.rotary_share = 0.5;
  row.traits.gated_ffn = row.traits.rms_norm = false;
  row.traits.activation = Activation::squared_relu;
  row.traits.one_plus_norms = true;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{.classes = {"NemotronForCausalLM", "NemotronForQuestionAnswering"},
                          .epsilon = "norm_eps",
                          .activation = {{nemotron_words, ""}},
                          .rotary_share = "partial_rotary_factor",
                          .early_keys = {head_dim},
                          .keys = {attention_bias, mlp_bias}};
  return row;
}();

constexpr ArchitectureInfo arcee = [] {
  ArchitectureInfo row = like_llama("arcee");
  row.traits.gated_ffn = false;
  row.traits.activation = Activation::squared_relu;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{.classes = {"ArceeForCausalLM", "ArceeForQuestionAnswering"},
                          .activation = {{nemotron_words, ""}},
                          .early_keys = {head_dim},
                          .keys = {attention_bias, mlp_bias}};
  return row;
}();

constexpr ArchitectureInfo jais2 = [] {
  ArchitectureInfo row = like_llama("jais2");
  row.traits.gated_ffn = row.traits.rms_norm = false;
  row.traits.activation = Activation::squared_relu;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{.classes = {.generator = "Jais2ForCausalLM", .has_classifier = false},
                          .epsilon = "layer_norm_eps",
                          .activation = {{nemotron_words, ""}},
                          .early_keys = {head_dim},
                          .keys = {usual_attention_bias,
                                   {.key = "mlp_bias", .flags = {&Model::biases}, .usual = true}}};
  return row;
}();

}  // namespace meshwright::architectures::families
