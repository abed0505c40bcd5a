// gpt-oss has attention sinks, windows in every other block, biases in attention and experts, and a
// clamped gate.
#include <cmath>

#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

namespace {

// Sets the scaling of positions for a file that gives none: YaRN with the published constants.
void set_usual_yarn(Fields& fields, Model& model) {
  if (is_given(fields, "rope_scaling") || is_given(fields, "rope_parameters")) return;
  constexpr double factor = 32;
  model.rotary_yarn = true;
  model.rotary_truncate = false;
  model.rotary_factor = factor;
  model.rotary_low = 1;
  model.rotary_high = 32;
  model.rotary_original = 4096;
  model.score_factor = std::pow(0.1 * std::log(factor) + 1, 2);
}

}  // namespace

constexpr ArchitectureInfo gpt_oss = [] {
  ArchitectureInfo row = with_experts(like_llama("gpt_oss"), 128, 4);
  row.sinks = "self_attn.sinks";
  row.router = "mlp.router";
  row.mlp = {"mlp", "mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.down_proj"};
  row.published_expert_gate_in = "mlp.experts.gate_up_proj";
  row.bare_experts = row.experts_in_turn = true;
  row.traits.attention_bias = row.traits.attention_out_bias = true;
  row.traits.router_bias = row.traits.expert_biases = row.traits.attention_sinks = true;
  row.traits.norm_epsilon = 1e-5;
  row.traits.head_dim = 64;
  row.traits.rotary_base = 150000;
  row.traits.local_period = 2;
  row.traits.global_place = 1;
  row.traits.router_aux_loss_coef = 0.001;
  row.config =
      ConfigFile{.classes = {"GptOssForCausalLM"},
                 .needs_kv_heads = true,
                 .fixed = {{"swiglu_alpha", "1.702", "another gain of the sigmoid is not built"}},
                 .early_keys = {head_dim},
                 .keys = {usual_attention_bias,
                          local_experts,
                          {.key = "swiglu_limit", .positive = &Model::swiglu_limit, .usual = 7},
                          {.key = "sliding_window", .count = &Model::local_window, .usual = 128},
                          layer_types,
                          {.read = set_usual_yarn}}};
  return row;
}();

}  // namespace meshwright::architectures::families
