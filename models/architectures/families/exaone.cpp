// EXAONE 4, and K-EXAONE with experts: norms of what the branches add, and rotary positions only in
// blocks with a window if there are any.
#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_exaone_windows(Fields& fields, Model& model) {
  read_windows_in_turn(fields, 4, 3, 4096, model);
  const bool any = !fields.has("sliding_window") || is_given(fields, "sliding_window");
  if (any) turn_only_in_windows(model);
}

// A file whose blocks all lack rotary positions has a window that no block uses.
void write_exaone_windows(const Model& model, json& config) {
  write_windows_in_turn(model, config);
  if (model.local_window == 0 && !model.unrotated_blocks.empty()) config["sliding_window"] = 4096;
}

void read_exaone_experts(Fields& fields, Model& model) {
  read_chosen_by_bias(fields, "num_experts", model);
  model.expert_weight_scale = positive(fields, "routed_scaling_factor", 2.5);
  model.expert_groups = number(fields, "n_group", 1, 1);
  model.groups_per_token = number(fields, "topk_group", 1, 1);
  if (model.expert_groups != 1 || model.groups_per_token != 1)
    fields.fail("n_group",
                "groups of experts are not built for it; set n_group and topk_group to 1");
  model.shared_ffn = number(fields, "num_shared_experts", 1, 0) * model.ffn;
  read_dense_types(fields, 1, model);
}

void write_exaone_experts(const Model& model, json& config) {
  config["num_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["routed_scaling_factor"] = model.expert_weight_scale;
  config["num_shared_experts"] = model.shared_ffn / model.ffn;
  write_dense_types(model, config);
  write_own_expert_keys(model, config);
}

constexpr ConfigKey exaone_windows{.read = read_exaone_windows, .write = write_exaone_windows};

}  // namespace

constexpr ArchitectureInfo exaone4 = [] {
  ArchitectureInfo row = with_head_norms(like_llama("exaone4"));
  row.branch_norm = true;
  row.norms.attention = "post_attention_layernorm";
  row.norms.mlp = "post_feedforward_layernorm";
  row.traits.query_key_norm = QueryKeyNorm::heads;
  row.traits.norm_epsilon = 1e-5;
  row.config =
      ConfigFile{.classes = {"Exaone4ForCausalLM", "Exaone4ForQuestionAnswering"},
                 .needs_kv_heads = true,
                 .no_yarn = "beside blocks without rotary positions is not built; use llama3",
                 .early_keys = {head_dim},
                 .keys = {exaone_windows}};
  return row;
}();

constexpr ArchitectureInfo exaone_moe = [] {
  ArchitectureInfo row = with_experts(with_head_norms(like_llama("exaone_moe")), 64, 8);
  row.shared_experts = "mlp.shared_experts";
  row.router_bias = "mlp.e_score_correction_bias";
  row.traits.query_key_norm = QueryKeyNorm::heads;
  row.traits.norm_epsilon = 1e-5;
  row.traits.sigmoid_scores = row.traits.expert_bias = row.traits.groups_by_two = true;
  row.config = ConfigFile{
      .classes = {.generator = "ExaoneMoeForCausalLM", .has_classifier = false},
      .sizes = {.ffn = "moe_intermediate_size"},
      .needs_kv_heads = true,
      .no_yarn = "beside blocks without rotary positions is not built; use llama3",
      .early_keys = {head_dim},
      .keys = {exaone_windows,
               {.key = "norm_topk_prob", .negated = &Model::expert_weights_of_all, .usual = true},
               {.read = read_exaone_experts, .write = write_exaone_experts}}};
  return row;
}();

}  // namespace meshwright::architectures::families
