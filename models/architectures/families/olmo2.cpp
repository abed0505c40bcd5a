// OLMo has layer norms without weights. OLMo 2 and 3 and FlexOlmo normalize what attention and MLP
// add to the residual stream.
#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Only blocks without a window have scaled rotary positions.
void read_olmo3_windows(Fields& fields, Model& model) {
  read_windows_in_turn(fields, 4, 3, 4096, model);
  model.local_rotary_base =
      is_given(fields, "rope_theta") ? fields.required<double>("rope_theta") : model.rotary_base;
}

void write_olmo3_windows(const Model& model, json& config) {
  write_windows_in_turn(model, config);
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", model.rotary_base}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", model.local_rotary_base}}}};
}

void read_flex_experts(Fields& fields, Model& model) {
  const bool is_older = is_given(fields, "num_experts");
  read_balanced_experts(fields, is_older ? "num_experts" : "num_local_experts", model);
}

void write_flex_experts(const Model& model, json& config) {
  write_experts("num_experts", model, config);
}

}  // namespace

constexpr ArchitectureInfo olmo = [] {
  ArchitectureInfo row = like_llama("olmo");
  row.bare_norms = true;
  row.traits.rms_norm = row.traits.norm_bias = false;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{
      .classes = {.generator = "OlmoForCausalLM"},
      .epsilon = "",
      .fixed = {{"clip_qkv", "null", "queries, keys and values that are clipped are not built"},
                no_pad_token},
      .early_keys = {unusual_head_dim},
      .keys = {attention_bias}};
  return row;
}();

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

constexpr ArchitectureInfo olmo3 = [] {
  ArchitectureInfo row = olmo2;
  row.name = "olmo3";
  row.traits.rotary_base = 5e5;
  row.config.classes = {"Olmo3ForCausalLM"};
  row.config.keys[2] = {.read = read_olmo3_windows, .write = write_olmo3_windows};
  return row;
}();

constexpr ArchitectureInfo flex_olmo = [] {
  ArchitectureInfo row = with_experts(olmo2, 7, 5);
  row.name = "flex_olmo";
  row.traits.norm_epsilon = 1e-6;
  row.traits.rotary_base = 5e5;
  row.traits.router_aux_loss_coef = 0.01;
  row.config =
      ConfigFile{.classes = {.generator = "FlexOlmoForCausalLM", .has_classifier = false},
                 .fixed = {no_pad_token},
                 .early_keys = {unusual_head_dim},
                 .keys = {attention_bias,
                          {.read = read_flex_experts, .write = write_flex_experts},
                          {.key = "norm_topk_prob", .negated = &Model::expert_weights_of_all}}};
  return row;
}();

}  // namespace meshwright::architectures::families
