// ERNIE 4.5, without and with experts: rotary positions in pairs, one flag for all biases.
#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

constexpr ConfigKey one_bias{
    .key = "use_bias",
    .flags = {&Model::biases, &Model::attention_bias, &Model::attention_out_bias}};

// Reads the experts: a softmax of all, whose biases change the choice only. Blocks between two
// indices have experts, every `moe_layer_interval`-th of them.
void read_ernie_experts(Fields& fields, Model& model) {
  const bool is_older = is_given(fields, "moe_num_experts");
  const bool is_older_k = is_given(fields, "moe_k");
  read_experts(fields,
               {is_older ? "moe_num_experts" : "num_local_experts",
                is_older_k ? "moe_k" : "num_experts_per_tok"},
               model);
  if (!flag(fields, "output_router_logits", false)) model.router_aux_loss_coef = 0;
  const int shared = number(fields, "moe_num_shared_experts", 2, 0);
  model.shared_ffn = shared * model.ffn;
  const int interval = number(fields, "moe_layer_interval", 1, 1);
  const int begin = number(fields, "moe_layer_start_index", 1, 0);
  const int end =
      is_given(fields, "moe_layer_end_index") ? fields.required<int>("moe_layer_end_index") : -1;
  std::vector<int> dense;
  for (int block = 0; block < model.layers; ++block)
    if ((block + 1) % interval != 0 || block < begin || (end >= 0 && block > end))
      dense.push_back(block);
  set_dense_blocks(fields, "moe_layer_start_index", std::move(dense), model);
}

void write_ernie_experts(const Model& model, json& config) {
  config["moe_num_experts"] = model.experts;
  config["moe_k"] = model.experts_per_token;
  config["moe_num_shared_experts"] = model.shared_ffn / model.ffn;
  config["router_aux_loss_coef"] = model.router_aux_loss_coef;
  config["output_router_logits"] = model.router_aux_loss_coef > 0;
  int begin = 0, end = model.layers - 1;
  while (begin < model.layers && !model.has_experts(begin)) ++begin;
  while (end > begin && !model.has_experts(end)) --end;
  const auto between = model.dense_blocks.size() - begin - (model.layers - 1 - end);
  config["moe_layer_start_index"] = begin;
  config["moe_layer_end_index"] = end;
  config["moe_layer_interval"] = between > 0 ? (end - begin) / (end - begin - between) : 1;
  if (model.dense_ffn > 0) config["intermediate_size"] = model.dense_ffn;
  write_own_expert_keys(model, config);
}

}  // namespace

constexpr ArchitectureInfo ernie4_5 = [] {
  ArchitectureInfo row = like_llama("ernie4_5");
  row.traits.tied_embeddings = true;
  row.traits.rotary_interleaved = true;
  row.traits.norm_epsilon = 1e-5;
  row.traits.rotary_base = 5e5;
  row.traits.head_dim = 128;
  row.config = ConfigFile{.classes = {.generator = "Ernie4_5ForCausalLM", .has_classifier = false},
                          .needs_kv_heads = true,
                          .early_keys = {head_dim},
                          .keys = {one_bias}};
  return row;
}();

constexpr ArchitectureInfo ernie4_5_moe = [] {
  ArchitectureInfo row = with_experts(like_llama("ernie4_5_moe"), 64, 6);
  row.shared_experts = "mlp.shared_experts";
  row.router_bias = "mlp.moe_statics.e_score_correction_bias";
  row.traits.expert_bias = true;
  row.traits.tied_embeddings = true;
  row.traits.rotary_interleaved = true;
  row.traits.norm_epsilon = 1e-5;
  row.traits.rotary_base = 5e5;
  row.traits.router_aux_loss_coef = 0.001;
  row.config =
      ConfigFile{.classes = {.generator = "Ernie4_5_MoeForCausalLM", .has_classifier = false},
                 .sizes = {.ffn = "moe_intermediate_size"},
                 .needs_kv_heads = true,
                 .fixed = {{"use_bias", "false", "biases are not built for it", true}},
                 .early_keys = {unusual_head_dim},
                 .keys = {{.read = read_ernie_experts, .write = write_ernie_experts}}};
  return row;
}();

}  // namespace meshwright::architectures::families
