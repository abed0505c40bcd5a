// Describes Qwen 2 and 3, without and with experts, OLMoE, Mellum and Flint.
#include <algorithm>

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Reads the window. If `use_sliding_window` is set, blocks from `max_window_layers` on have it.
void read_qwen_window(Fields& fields, Model& model) {
  if (flag(fields, "use_sliding_window", false)) {
    if (!fields.has("sliding_window") || is_given(fields, "sliding_window"))
      model.local_window = number(fields, "sliding_window", 4096, 1);
    model.local_from = number(fields, "max_window_layers", 28, 0);
  }
  check_layer_types(fields, model);
}

void write_qwen_window(const Model& model, json& config) {
  const bool has_one = model.local_window > 0;
  write_window(model, config);
  config["use_sliding_window"] = has_one;
  config["max_window_layers"] = has_one ? model.local_from : model.layers;
}

constexpr ConfigKey qwen_window{.read = read_qwen_window, .write = write_qwen_window};

// Reads the experts. Newer files have another key for their number.
void read_qwen_experts(Fields& fields, Model& model) {
  const bool is_older = is_given(fields, "num_experts");
  read_balanced_experts(fields, is_older ? "num_experts" : "num_local_experts", model);
}

void write_qwen_experts(const Model& model, json& config) {
  write_experts("num_experts", model, config);
}

// Reads which blocks have experts: every `decoder_sparse_step`-th block, except for those in
// `mlp_only_layers`.
void read_sparse_blocks(Fields& fields, Model& model) {
  const int step = number(fields, "decoder_sparse_step", 1, 1);
  std::vector<int> named;
  if (is_given(fields, "mlp_only_layers"))
    named = fields.required<std::vector<int>>("mlp_only_layers");
  std::vector<int> dense;
  for (int block = 0; block < model.layers; ++block)
    if ((block + 1) % step != 0 || std::ranges::find(named, block) != named.end())
      dense.push_back(block);
  set_dense_blocks(fields, "decoder_sparse_step", std::move(dense), model);
}

void write_sparse_blocks(const Model& model, json& config) {
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = model.dense_blocks;
  if (model.dense_ffn > 0) config["intermediate_size"] = model.dense_ffn;
}

// Reads the windows of Mellum, and that all its blocks have experts. Blocks with a window have a
// base of their rotary positions of their own.
void read_mellum_blocks(Fields& fields, Model& model) {
  if (is_given(fields, "layer_types")) read_windows_in_turn(fields, 1, -1, 1024, model);
  if (model.local_window > 0) model.local_rotary_base = model.rotary_base;
  read_dense_types(fields, 0, model);
}

void write_mellum_blocks(const Model& model, json& config) {
  write_windows_in_turn(model, config);
  write_dense_types(model, config);
  const double local = model.local_rotary_base > 0 ? model.local_rotary_base : model.rotary_base;
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", model.rotary_base}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
}

// Reads the experts of Flint: sigmoid scores without biases, and an MLP for all tokens. The first
// two blocks have none, unless the file says it.
void read_flint_experts(Fields& fields, Model& model) {
  read_chosen_by_bias(fields, "num_experts", model);
  model.shared_ffn = number(fields, "shared_expert_intermediate_size", 1024, 1);
  if (is_given(fields, "mlp_only_layers")) return read_sparse_blocks(fields, model);
  set_dense_blocks(fields, "mlp_only_layers", {0, 1}, model);
}

void write_flint_experts(const Model& model, json& config) {
  config["num_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["shared_expert_intermediate_size"] = model.shared_ffn;
  write_sparse_blocks(model, config);
  write_own_expert_keys(model, config);
}

// Reads the windows of Flint. Without a list, the first two blocks, the last one, and every fourth
// one between have none. Only blocks with a window have rotary positions.
void read_flint_windows(Fields& fields, Model& model) {
  std::vector<std::string> types;
  for (int block = 0; block < model.layers; ++block) {
    const bool is_full = block < 2 || block % 4 == 1 || block == model.layers - 1;
    types.emplace_back(is_full ? "full_attention" : "sliding_attention");
  }
  const std::string_view key = "layer_types";
  if (is_given(fields, key)) types = fields.required<std::vector<std::string>>(key);
  check_names_each(fields, key, types.size(), model);
  place_windows(types, model);
  model.local_window = number(fields, "sliding_window", 513, 1);
  check_layer_types(fields, model);
  turn_only_in_windows(model);
}

constexpr ConfigKey qwen_experts{.read = read_qwen_experts, .write = write_qwen_experts};
constexpr ConfigKey qwen_expert_shares{.key = "norm_topk_prob",
                                       .negated = &Model::expert_weights_of_all};
constexpr ConfigKey sparse_blocks{.read = read_sparse_blocks, .write = write_sparse_blocks};
constexpr FixedKey without_windows{"use_sliding_window", "false", "windows are not built for it"};

}  // namespace

constexpr ArchitectureInfo qwen2 = [] {
  ArchitectureInfo row = like_llama("qwen2");
  row.traits.attention_bias = true;
  row.config = ConfigFile{.classes = {"Qwen2ForCausalLM", "Qwen2ForQuestionAnswering"},
                          .needs_kv_heads = true,
                          .early_keys = {unusual_head_dim},
                          .keys = {qwen_window}};
  return row;
}();

constexpr ArchitectureInfo qwen3 = [] {
  ArchitectureInfo row = with_head_norms(like_llama("qwen3"));
  row.traits.query_key_norm = QueryKeyNorm::heads;
  row.traits.head_dim = 128;
  row.config = ConfigFile{.classes = {"Qwen3ForCausalLM", "Qwen3ForQuestionAnswering"},
                          .needs_kv_heads = true,
                          .early_keys = {head_dim},
                          .keys = {attention_bias, qwen_window}};
  return row;
}();

constexpr ArchitectureInfo qwen3_moe = [] {
  ArchitectureInfo row = with_experts(qwen3, 128, 8);
  row.name = "qwen3_moe";
  row.traits.head_dim = 0;
  row.traits.router_aux_loss_coef = 0.001;
  row.config =
      ConfigFile{.classes = {"Qwen3MoeForCausalLM", "Qwen3MoeForQuestionAnswering"},
                 .sizes = {.ffn = "moe_intermediate_size"},
                 .needs_kv_heads = true,
                 .fixed = {without_windows},
                 .early_keys = {head_dim},
                 .keys = {attention_bias, qwen_experts, qwen_expert_shares, sparse_blocks}};
  return row;
}();

// In Qwen 2 with experts, only the matrices of queries, keys and values can have biases.
constexpr ArchitectureInfo qwen2_moe = [] {
  ArchitectureInfo row = with_experts(qwen2, 60, 4);
  row.name = "qwen2_moe";
  row.shared_experts = "mlp.shared_expert";
  row.shared_gate = "mlp.shared_expert_gate";
  row.traits.router_aux_loss_coef = 0.001;
  row.traits.shared_gate = true;
  row.config = ConfigFile{
      .classes = {"Qwen2MoeForCausalLM", "Qwen2MoeForQuestionAnswering"},
      .sizes = {.ffn = "moe_intermediate_size"},
      .needs_kv_heads = true,
      .fixed = {without_windows},
      .early_keys = {unusual_head_dim},
      .keys = {
          {.key = "qkv_bias", .flags = {&Model::attention_bias}, .usual = true},
          qwen_experts,
          qwen_expert_shares,
          sparse_blocks,
          {.key = "shared_expert_intermediate_size", .count = &Model::shared_ffn, .usual = 5632}}};
  return row;
}();

// OLMoE has the experts of Qwen, in all blocks.
constexpr ArchitectureInfo olmoe = [] {
  ArchitectureInfo row = with_experts(with_head_norms(like_llama("olmoe")), 64, 8);
  row.traits.query_key_norm = QueryKeyNorm::rows;
  row.traits.norm_epsilon = 1e-5;
  row.traits.router_aux_loss_coef = 0.01;
  row.config = ConfigFile{
      .classes = {"OlmoeForCausalLM"},
      .fixed = {{"clip_qkv", "null", "queries, keys and values that are clipped are not built"}},
      .early_keys = {head_dim},
      .keys = {attention_bias, qwen_experts, qwen_expert_shares}};
  return row;
}();

constexpr ArchitectureInfo flint = [] {
  ArchitectureInfo row = with_experts(qwen3, 256, 6);
  row.name = "flint";
  row.shared_experts = "mlp.shared_expert";
  row.sinks = "self_attn.softmax_offset";
  row.traits.sigmoid_scores = row.traits.attention_sinks = true;
  row.config = ConfigFile{
      .classes = {.generator = "FlintForCausalLM", .has_classifier = false},
      .sizes = {.ffn = "moe_intermediate_size"},
      .needs_kv_heads = true,
      .no_yarn = "beside blocks without rotary positions is not built; use llama3",
      .early_keys = {head_dim},
      .keys = {attention_bias,
               {.key = "norm_topk_prob", .negated = &Model::expert_weights_of_all, .usual = true},
               {.read = read_flint_experts, .write = write_flint_experts},
               {.read = read_flint_windows, .write = write_windows_in_turn}}};
  return row;
}();

constexpr ArchitectureInfo mellum = [] {
  ArchitectureInfo row = qwen3_moe;
  row.name = "mellum";
  row.traits.experts = 64;
  row.traits.head_dim = 128;
  row.traits.rotary_base = 5e5;
  row.config = ConfigFile{
      .classes = {.generator = "MellumForCausalLM", .has_classifier = false},
      .sizes = {.ffn = "moe_intermediate_size"},
      .needs_kv_heads = true,
      .early_keys = {head_dim},
      .keys = {attention_bias,
               qwen_experts,
               {.key = "norm_topk_prob", .negated = &Model::expert_weights_of_all, .usual = true},
               {.read = read_mellum_blocks, .write = write_mellum_blocks}}};
  return row;
}();

}  // namespace meshwright::architectures::families
