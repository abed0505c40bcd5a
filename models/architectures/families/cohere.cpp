// Cohere's Command R has one norm for both branches of a block, and scaled logits. Command R7B and
// Command A (cohere2) have windows, and rotary positions in blocks with a window only. cohere2_moe
// has experts too.
#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_cohere2_windows(Fields& fields, Model& model) {
  read_windows_in_turn(fields, 4, 3, 4096, model);
  turn_only_in_windows(model);
}

// Reads the experts: the router takes the softmax of the chosen logits, or their sigmoids. The
// first blocks may have an MLP that is as wide as `prefix_dense_intermediate_size` says.
void read_cohere_experts(Fields& fields, Model& model) {
  const std::string_view chosen_by = "expert_selection_fn",
                         joined = "shared_expert_combination_strategy", types = "mlp_layer_types",
                         first = "first_k_dense_replace";
  read_balanced_experts(fields, "num_experts", model);
  model.router_aux_loss_coef = 0;
  const auto function =
      is_given(fields, chosen_by) ? fields.required<std::string>(chosen_by) : "softmax";
  model.sigmoid_scores =
      choose(fields, chosen_by, std::string(chosen_by), function, {"softmax", "sigmoid"}) == 1;
  model.expert_weights_of_all = model.sigmoid_scores && !flag(fields, "norm_topk_prob", true);
  model.shared_ffn = number(fields, "num_shared_experts", 0, 0) * model.ffn;
  const auto way = is_given(fields, joined) ? fields.required<std::string>(joined) : "average";
  const bool averages = choose(fields, joined, std::string(joined), way, {"sum", "average"}) == 1;
  model.shared_mean = averages && model.shared_ffn > 0;
  std::vector<int> dense;
  if (is_given(fields, types)) {
    const auto kinds = fields.required<std::vector<std::string>>(types);
    check_names_each(fields, types, kinds.size(), model);
    for (int block = 0; block < model.layers; ++block)
      if (choose(fields, types, "kind of MLP", kinds[block], {"dense", "sparse"}) == 0)
        dense.push_back(block);
  } else {
    for (int block = 0; block < std::min(number(fields, first, 0, 0), model.layers); ++block)
      dense.push_back(block);
  }
  set_dense_blocks(fields, is_given(fields, types) ? types : first, std::move(dense), model,
                   "prefix_dense_intermediate_size");
}

void write_cohere_experts(const Model& model, json& config) {
  config["num_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["expert_selection_fn"] = model.sigmoid_scores ? "sigmoid" : "softmax";
  config["norm_topk_prob"] = !model.expert_weights_of_all;
  config["num_shared_experts"] = model.shared_ffn / model.ffn;
  config["shared_expert_combination_strategy"] = model.shared_mean ? "average" : "sum";
  json& types = config["mlp_layer_types"] = json::array();
  for (int block = 0; block < model.layers; ++block)
    types.push_back(model.has_experts(block) ? "sparse" : "dense");
  if (model.dense_ffn > 0) config["prefix_dense_intermediate_size"] = model.dense_ffn;
  write_own_expert_keys(model, config);
}

// Reads the windows. Blocks with a window have rotary positions, and so have those without experts
// if `prefix_dense_sliding_window_pattern` is 1.
void read_moe_windows(Fields& fields, Model& model) {
  read_windows_in_turn(fields, 4, 3, 4096, model);
  const bool dense_turn = number(fields, "prefix_dense_sliding_window_pattern", 1, 1) == 1;
  for (int block = 0; block < model.layers; ++block)
    if (model.window_of(block) == 0 && !(dense_turn && !model.has_experts(block)))
      model.unrotated_blocks.push_back(block);
}

void write_moe_windows(const Model& model, json& config) {
  write_windows_in_turn(model, config);
  const bool dense_turn = std::ranges::none_of(
      model.unrotated_blocks, [&](int block) { return !model.has_experts(block); });
  config["prefix_dense_sliding_window_pattern"] = dense_turn ? 1 : model.layers + 1;
}

// A file with an epsilon of RMSNorms has them in place of layer norms.
void read_rms_epsilon(Fields& fields, Model& model) {
  const std::string_view key = "rms_norm_eps";
  model.rms_norm = is_given(fields, key);
  if (model.rms_norm) model.norm_epsilon = fields.required<double>(key);
}

void write_rms_epsilon(const Model& model, json& config) {
  if (model.rms_norm) config["rms_norm_eps"] = model.norm_epsilon;
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

constexpr ArchitectureInfo cohere2_moe = [] {
  ArchitectureInfo row = with_experts(cohere2, 8, 2);
  row.name = "cohere2_moe";
  row.shared_experts = "mlp.shared_experts";
  row.traits.head_dim = 128;
  row.config.classes.generator = "Cohere2MoeForCausalLM";
  row.config.fixed[0] = no_pad_token;
  row.config.early_keys[0] = head_dim;
  row.config.keys[2] = {.read = read_cohere_experts, .write = write_cohere_experts};
  row.config.keys[3] = {.read = read_moe_windows, .write = write_moe_windows};
  row.config.late_keys[0] = {.read = read_rms_epsilon, .write = write_rms_epsilon};
  return row;
}();

}  // namespace meshwright::architectures::families
