// Nemotron, Arcee and Jais 2 have an MLP without a gate whose activation is the square of relu.
// BitNet has it with a gate. NanoChat also has norms without weights.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

namespace {

constexpr ActivationWord nemotron_words[] = {{"relu2", Activation::squared_relu}};

// Rotary positions that turn back are built with the angles of `default` and `linear` only.
void check_angles(Fields& fields, Model& /*model*/) {
  for (std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!is_given(fields, key)) continue;
    Fields rope = fields.object(key);
    for (std::string_view type : {"rope_type", "type"}) {
      const auto word = is_given(rope, type) ? rope.required<std::string>(type) : "default";
      if (word == "llama3" || word == "yarn")
        rope.fail(type, "'" + word + "' is not built for it; use default or linear");
    }
  }
}

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

// BitNet normalizes what the last matrix of attention and that of the MLP read. Only its ordinary
// matrices are built: those that `quantization_config` makes ternary are not.
constexpr ArchitectureInfo bitnet = [] {
  ArchitectureInfo row = like_llama("bitnet");
  row.attention_inner_norm = "self_attn.attn_sub_norm";
  row.mlp_inner_norm = "mlp.ffn_sub_norm";
  row.traits.activation = Activation::squared_relu;
  row.traits.norm_epsilon = 1e-5;
  row.traits.rotary_base = 5e5;
  row.config =
      ConfigFile{.classes = {.generator = "BitNetForCausalLM", .has_classifier = false},
                 .activation = {{nemotron_words, ""}},
                 .fixed = {{"quantization_config", "null",
                            "products of ternary weights and 8-bit activations are not built"}},
                 .keys = {attention_bias}};
  return row;
}();

// NanoChat's norms have no weights. One more comes after the embedding.
constexpr ArchitectureInfo nanochat = [] {
  ArchitectureInfo row = like_llama("nanochat");
  row.embeddings.norm = "model.embedding_norm";
  row.mlp = {"mlp", "mlp.gate", "mlp.fc1", "mlp.fc2"};
  row.q_norm = row.k_norm = "self_attn.q_norm";  // without weights
  row.bare_norms = row.turns_back = true;
  row.traits.query_key_norm = QueryKeyNorm::turned;
  row.traits.gated_ffn = false;
  row.traits.activation = Activation::squared_relu;
  row.config = ConfigFile{
      .classes = {.generator = "NanoChatForCausalLM", .has_classifier = false},
      .activation = {{nemotron_words, ""}},
      .fixed = {no_pad_token},
      .keys = {attention_bias,
               {.read = check_angles},
               {.key = "final_logit_softcapping", .cap = &Model::logit_cap, .usual = 15}}};
  return row;
}();

}  // namespace meshwright::architectures::families
