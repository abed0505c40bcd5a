// Trinity (AFMoE) gates the output of attention. Its blocks have norms on both sides of each
// branch, as Kolibri's.
#include <cmath>

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_afmoe_experts(Fields& fields, Model& model) {
  read_chosen_by_bias(fields, "num_experts", model);
  model.expert_weight_scale = positive(fields, "route_scale", 1);
  model.shared_ffn = number(fields, "num_shared_experts", 2, 0) * model.ffn;
  std::vector<int> dense;
  const int count = number(fields, "num_dense_layers", 1, 0);
  for (int block = 0; block < std::min(count, model.layers); ++block) dense.push_back(block);
  set_dense_blocks(fields, "num_dense_layers", std::move(dense), model);
}

void write_afmoe_experts(const Model& model, json& config) {
  config["num_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["route_scale"] = model.expert_weight_scale;
  config["num_shared_experts"] = model.shared_ffn / model.ffn;
  config["num_dense_layers"] = model.dense_blocks.size();
  if (model.dense_ffn > 0) config["intermediate_size"] = model.dense_ffn;
  write_own_expert_keys(model, config);
}

// Only blocks with a window have rotary positions.
void read_afmoe_windows(Fields& fields, Model& model) {
  const int period = number(fields, "global_attn_every_n_layers", 4, 1);
  read_windows_in_turn(fields, period, period - 1, 1024, model);
  turn_only_in_windows(model);
}

// With `mup_enabled`, embeddings are multiplied by the root of the hidden size.
void read_mup(Fields& fields, Model& model) {
  if (flag(fields, "mup_enabled", false))
    model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
}

void write_mup(const Model& model, json& config) {
  config["mup_enabled"] = model.embedding_scale != 1;
}

void read_kolibri_experts(Fields& fields, Model& model) {
  const bool is_older = is_given(fields, "num_experts");
  read_balanced_experts(fields, is_older ? "num_experts" : "num_local_experts", model);
  model.router_aux_loss_coef = 0;
  model.shared_ffn = number(fields, "shared_expert_intermediate_size", 512, 1);
}

void write_kolibri_experts(const Model& model, json& config) {
  config["num_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["shared_expert_intermediate_size"] = model.shared_ffn;
  write_own_expert_keys(model, config);
}

void read_kolibri_windows(Fields& fields, Model& model) {
  read_windows_in_turn(fields, 5, 4, 513, model);
  turn_only_in_windows(model);
}

constexpr std::string_view no_yarn_beside =
    "beside blocks without rotary positions is not built; use llama3";

}  // namespace

constexpr ArchitectureInfo afmoe = [] {
  ArchitectureInfo row = with_experts(with_head_norms(like_llama("afmoe")), 64, 6);
  row.attention_gate = "self_attn.gate_proj";
  row.attention_out_norm = "post_attention_layernorm";
  row.norms.mlp = "pre_mlp_layernorm";
  row.mlp_out_norm = "post_mlp_layernorm";
  row.router = "mlp.router.gate";
  row.router_bias = "mlp.expert_bias";
  row.shared_experts = "mlp.shared_experts";
  row.traits.query_key_norm = QueryKeyNorm::heads;
  row.traits.sigmoid_scores = row.traits.expert_bias = true;
  row.traits.norm_epsilon = 1e-5;
  row.traits.head_dim = 128;
  row.config = ConfigFile{.classes = {.generator = "AfmoeForCausalLM", .has_classifier = false},
                          .sizes = {.ffn = "moe_intermediate_size"},
                          .no_yarn = no_yarn_beside,
                          .early_keys = {head_dim},
                          .keys = {attention_bias,
                                   {.read = read_afmoe_experts, .write = write_afmoe_experts},
                                   {.read = read_afmoe_windows, .write = write_windows_in_turn},
                                   {.read = read_mup, .write = write_mup}}};
  return row;
}();

// A published file also has biases that are added to the logits for the choice of experts. They are
// not built.
constexpr ArchitectureInfo kolibri1 = [] {
  ArchitectureInfo row = with_experts(with_head_norms(like_llama("kolibri1")), 384, 6);
  row.attention_out_norm = "post_attn_norm";
  row.mlp_out_norm = "post_ffn_norm";
  row.shared_experts = "mlp.shared_experts";
  row.traits.query_key_norm = QueryKeyNorm::heads;
  row.traits.sigmoid_scores = true;
  row.traits.head_dim = 128;
  row.config =
      ConfigFile{.classes = {.generator = "Kolibri1ForCausalLM", .has_classifier = false},
                 .sizes = {.ffn = "moe_intermediate_size"},
                 .needs_kv_heads = true,
                 .no_yarn = no_yarn_beside,
                 .early_keys = {head_dim},
                 .keys = {{.key = "norm_topk_prob", .negated = &Model::expert_weights_of_all},
                          {.read = read_kolibri_experts, .write = write_kolibri_experts},
                          {.read = read_kolibri_windows, .write = write_windows_in_turn}}};
  return row;
}();

}  // namespace meshwright::architectures::families
