// DeepSeek-V2 and V3 have multi-head latent attention; build_attention.cpp has the names of its
// matrices. They and GLM-4.5 choose experts by groups, have shared experts, and first blocks
// without experts. Youtu and MiniCPM 3 have latent attention without experts. GLM-4.7-Flash is
// DeepSeek-V3 with other keys in its file, and A.X K1 with one norm more.
#include <algorithm>
#include <cmath>

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"
#include "models/program/graph/experts.h"

namespace meshwright::architectures::families {

namespace {

// Reads the widths of latent attention.
void read_latent_widths(Fields& fields, Model& model) {
  constexpr int most = 1 << 12;
  model.rotary_dim = number(fields, "qk_rope_head_dim", 64, 2);
  const int other = number(fields, "qk_nope_head_dim", 128, 1);
  model.v_head_dim = number(fields, "v_head_dim", 128, 1);
  for (const auto& [key, value] :
       {std::pair{"qk_rope_head_dim", model.rotary_dim}, std::pair{"qk_nope_head_dim", other},
        std::pair{"v_head_dim", model.v_head_dim}})
    if (value > most) fields.fail(key, std::to_string(value) + " is out of range");
  if (model.rotary_dim % 2 != 0) fields.fail("qk_rope_head_dim", "an even number is needed");
  model.head_dim = other + model.rotary_dim;
  if (model.v_head_dim > model.head_dim)
    fields.fail("v_head_dim", std::to_string(model.v_head_dim) +
                                  " is wider than a head's queries, " +
                                  std::to_string(model.head_dim) + "; that is not built");
}

void write_latent_widths(const Model& model, json& config) {
  config["qk_rope_head_dim"] = model.rotary_dim;
  config["qk_nope_head_dim"] = model.head_dim - model.rotary_dim;
  config["v_head_dim"] = model.v_head_dim;
}

void read_latent_ranks(Fields& fields, Model& model) {
  constexpr int most = 1 << 20;
  model.kv_lora_rank = number(fields, "kv_lora_rank", 512, 1);
  const bool queries_too = !fields.has("q_lora_rank") || is_given(fields, "q_lora_rank");
  model.q_lora_rank = queries_too ? number(fields, "q_lora_rank", 1536, 1) : 0;
  if (model.kv_lora_rank > most || model.q_lora_rank > most)
    fields.fail("kv_lora_rank", "a rank is out of range");
  if (model.kv_heads != model.heads)
    fields.fail("num_key_value_heads", "latent attention has as many as there are heads");
}

void write_latent_ranks(const Model& model, json& config) {
  config["kv_lora_rank"] = model.kv_lora_rank;
  config["q_lora_rank"] = model.q_lora_rank > 0 ? json(model.q_lora_rank) : json(nullptr);
}

void read_routed_experts(Fields& fields, Model& model) {
  const bool is_newer = is_given(fields, "num_local_experts");
  read_experts(fields, {is_newer ? "num_local_experts" : "n_routed_experts", "num_experts_per_tok"},
               model);
}

void write_routed_experts(const Model& model, json& config) {
  config["n_routed_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  write_own_expert_keys(model, config);
}

// Has the defaults of the router: its groups of experts, the number of shared experts, and the
// factor on the experts' weights.
struct Router {
  int groups = 1, groups_per_token = 1, shared = 1;
  double scale = 1;
};

void read_router(Fields& fields, const Router& usual, Model& model) {
  constexpr int most_groups = 32;
  if (model.sigmoid_scores && model.router_aux_loss_coef > 0)
    fields.fail("router_aux_loss_coef",
                "a balancing loss of sigmoid scores is not built; set it to 0");
  model.expert_groups = number(fields, "n_group", usual.groups, 1);
  if (model.experts % model.expert_groups != 0 || model.expert_groups > most_groups)
    fields.fail("n_group", std::to_string(model.expert_groups) + " must divide the " +
                               std::to_string(model.experts) + " experts, and be at most " +
                               std::to_string(most_groups));
  model.groups_per_token = number(fields, "topk_group", usual.groups_per_token, 1);
  const int size = model.experts / model.expert_groups;
  if (model.groups_per_token > model.expert_groups ||
      model.groups_per_token * size < model.experts_per_token)
    fields.fail("topk_group", std::to_string(model.groups_per_token) + " of " +
                                  std::to_string(model.expert_groups) + " groups of " +
                                  std::to_string(size) + " experts: a token needs " +
                                  std::to_string(model.experts_per_token) + " to choose from");
  model.expert_weight_scale = positive(fields, "routed_scaling_factor", usual.scale);
  const int shared = number(fields, "n_shared_experts", usual.shared, 0);
  if (shared > most_experts) fields.fail("n_shared_experts", "is out of range");
  model.shared_ffn = shared * model.ffn;
}

// Reads how many of the first blocks have no experts.
void read_first_dense(Fields& fields, int usual, Model& model) {
  const int count = number(fields, "first_k_dense_replace", usual, 0);
  std::vector<int> dense;
  for (int block = 0; block < std::min(count, model.layers); ++block) dense.push_back(block);
  set_dense_blocks(fields, "first_k_dense_replace", std::move(dense), model);
}

void write_router(const Model& model, json& config) {
  config["n_group"] = model.expert_groups;
  config["topk_group"] = model.groups_per_token;
  config["routed_scaling_factor"] = model.expert_weight_scale;
  config["n_shared_experts"] = model.shared_ffn / model.ffn;
  config["first_k_dense_replace"] = model.dense_blocks.size();
  config["intermediate_size"] = model.dense_ffn > 0 ? model.dense_ffn : model.ffn;
}

void read_glm4_router(Fields& fields, Model& model) {
  read_router(fields, {}, model);
  read_first_dense(fields, 1, model);
}

void read_deepseek_v2_router(Fields& fields, Model& model) {
  const std::string_view key = "topk_method";
  const auto method =
      is_given(fields, key) ? fields.required<std::string>(key) : std::string("greedy");
  choose(fields, key, "topk_method", method, {"greedy", "group_limited_greedy"});
  read_router(fields, {.shared = 2}, model);
  if (method == "greedy") model.expert_groups = model.groups_per_token = 1;
  read_first_dense(fields, 0, model);
}

void write_deepseek_v2_router(const Model& model, json& config) {
  config["topk_method"] = model.expert_groups > 1 ? "group_limited_greedy" : "greedy";
  write_router(model, config);
}

void read_deepseek_v3_router(Fields& fields, Model& model) {
  read_router(fields, {8, 4, 1, 2.5}, model);
  read_first_dense(fields, 3, model);
}

void read_glm4_lite_router(Fields& fields, Model& model) {
  read_router(fields, {.scale = 1.8}, model);
  read_dense_types(fields, 1, model);
}

void read_solar_router(Fields& fields, Model& model) {
  read_router(fields, {}, model);
  read_first_dense(fields, 0, model);
}

void read_dots1_router(Fields& fields, Model& model) {
  read_router(fields, {.shared = 0}, model);
  read_first_dense(fields, 0, model);
}

// Reads the window of dots.llm1: blocks from `max_window_layers` on have it.
void read_dots1_window(Fields& fields, Model& model) {
  if (is_given(fields, "sliding_window") && is_given(fields, "max_window_layers")) {
    model.local_from = number(fields, "max_window_layers", 0, 0);
    if (model.local_from < model.layers)
      model.local_window = number(fields, "sliding_window", 4096, 1);
  }
  check_layer_types(fields, model);
}

void write_dots1_window(const Model& model, json& config) {
  write_window(model, config);
  config["max_window_layers"] = model.local_window > 0 ? model.local_from : model.layers;
}

void read_axk1_router(Fields& fields, Model& model) {
  read_router(fields, {8, 4, 1, 2.5}, model);
  read_dense_types(fields, 1, model);
}

void write_axk1_router(const Model& model, json& config) {
  write_router(model, config);
  write_dense_types(model, config);
}

// Reads the router of Hunyuan 3, whose bias is a parameter of the block.
void read_hy_v3_router(Fields& fields, Model& model) {
  read_chosen_by_bias(fields, "num_experts", model);
  model.expert_weight_scale = positive(fields, "router_scaling_factor", 2.826);
  model.shared_ffn = number(fields, "num_shared_experts", 1, 0) * model.ffn;
  read_dense_types(fields, 1, model);
}

void write_hy_v3_router(const Model& model, json& config) {
  config["num_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["router_scaling_factor"] = model.expert_weight_scale;
  config["num_shared_experts"] = model.shared_ffn / model.ffn;
  write_dense_types(model, config);
  write_own_expert_keys(model, config);
}

// Reads the factors of MiniCPM: of embeddings, of what the branches add, and of logits.
void read_minicpm_scales(Fields& fields, Model& model) {
  model.embedding_scale = positive(fields, "scale_emb", 12);
  const double root = std::sqrt(static_cast<double>(model.layers));
  model.residual_scale = positive(fields, "scale_depth", root) / root;
  model.logit_scale = positive(fields, "dim_model_base", model.hidden) / model.hidden;
}

void write_minicpm_scales(const Model& model, json& config) {
  config["scale_emb"] = model.embedding_scale;
  config["scale_depth"] = model.residual_scale * std::sqrt(static_cast<double>(model.layers));
  config["dim_model_base"] = std::lround(model.logit_scale * model.hidden);
}

// MiniCPM's values are as wide as a head of the hidden size, unless the file says it.
void read_minicpm_widths(Fields& fields, Model& model) {
  read_latent_widths(fields, model);
  const int heads = number(fields, "num_attention_heads", 1, 1);
  if (!is_given(fields, "v_head_dim"))
    model.v_head_dim = number(fields, "hidden_size", heads, heads) / heads;
}

constexpr SizeKeys sizes_with_experts = {.ffn = "moe_intermediate_size"};
constexpr FixedKey no_tokens_ahead = {"num_nextn_predict_layers", "0", "", true};
constexpr ConfigKey latent_widths{.read = read_latent_widths, .write = write_latent_widths};
constexpr ConfigKey latent_ranks{.read = read_latent_ranks, .write = write_latent_ranks};
constexpr ConfigKey routed_experts{.read = read_routed_experts, .write = write_routed_experts};
constexpr ConfigKey weights_of_chosen{
    .key = "norm_topk_prob", .negated = &Model::expert_weights_of_all, .usual = true};

constexpr ConfigKey rotary_in_pairs{
    .key = "rope_interleave", .flags = {&Model::rotary_interleaved}, .usual = true};

constexpr ConfigFile glm4_lite_config = {.model_type = "glm4_moe_lite",
                                         .sizes = sizes_with_experts,
                                         .early_keys = {latent_widths},
                                         .keys = {latent_ranks,
                                                  attention_bias,
                                                  rotary_in_pairs,
                                                  routed_experts,
                                                  weights_of_chosen,
                                                  {.read = read_glm4_lite_router}}};
constexpr ArchitectureInfo with_sigmoid_scores(ArchitectureInfo row) {
  row.router_bias = "e_score_correction_bias";
  row.traits.sigmoid_scores = row.traits.expert_bias = row.traits.groups_by_two = true;
  return row;
}

}  // namespace

constexpr ArchitectureInfo deepseek_v2 = [] {
  ArchitectureInfo row = with_experts(like_llama("deepseek_v2"), 64, 8);
  row.shared_experts = "mlp.shared_experts";
  row.traits.rotary_interleaved = true;
  row.traits.expert_weights_of_all = true;
  row.config =
      ConfigFile{.classes = {"DeepseekV2ForCausalLM"},
                 .sizes = sizes_with_experts,
                 .fixed = {{"norm_topk_prob", "false",
                            "weights that are renormalised are not built for it", true},
                           {"mlp_bias", "false", "MLPs with biases are not built for it"}},
                 .early_keys = {latent_widths},
                 .keys = {latent_ranks,
                          attention_bias,
                          routed_experts,
                          {.read = read_deepseek_v2_router, .write = write_deepseek_v2_router}}};
  return row;
}();

constexpr ArchitectureInfo deepseek_v3 = [] {
  ArchitectureInfo row = with_sigmoid_scores(with_experts(like_llama("deepseek_v3"), 256, 8));
  row.shared_experts = "mlp.shared_experts";
  row.traits.rotary_interleaved = true;
  row.config = ConfigFile{.classes = {"DeepseekV3ForCausalLM"},
                          .sizes = sizes_with_experts,
                          .fixed = {no_tokens_ahead},
                          .early_keys = {latent_widths},
                          .keys = {latent_ranks,
                                   attention_bias,
                                   rotary_in_pairs,
                                   routed_experts,
                                   weights_of_chosen,
                                   {.read = read_deepseek_v3_router, .write = write_router}}};
  row.other_configs = {&glm4_lite_config, 1};
  return row;
}();

// A.X K1 is DeepSeek-V3 with a norm of what the experts make.
constexpr ArchitectureInfo axk1 = [] {
  ArchitectureInfo row = deepseek_v3;
  row.name = "axk1";
  row.mlp_out_norm = "post_mlp_layernorm";
  row.experts_out_norm = true;
  row.traits.experts = 192;
  row.config.classes = {.generator = "AXK1ForCausalLM", .has_classifier = false};
  row.config.keys[5] = {.read = read_axk1_router, .write = write_axk1_router};
  row.other_configs = {};
  return row;
}();

// In GLM-4.5, only the matrices of queries, keys and values can have biases. The choice of experts
// is balanced by biases instead of a loss.
constexpr ArchitectureInfo glm4_moe = [] {
  ArchitectureInfo row =
      with_head_norms(with_sigmoid_scores(with_experts(like_llama("glm4_moe"), 128, 8)));
  row.shared_experts = "mlp.shared_experts";
  row.rotary_share = 0.5;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{.classes = {"Glm4MoeForCausalLM"},
                          .sizes = sizes_with_experts,
                          .needs_kv_heads = true,
                          .rotary_share = "partial_rotary_factor",
                          .fixed = {no_tokens_ahead},
                          .early_keys = {head_dim},
                          .keys = {{.key = "attention_bias", .flags = {&Model::attention_bias}},
                                   {.key = "use_qk_norm", .norm = QueryKeyNorm::heads},
                                   routed_experts,
                                   weights_of_chosen,
                                   {.read = read_glm4_router, .write = write_router}}};
  return row;
}();

constexpr ArchitectureInfo dots1 = [] {
  ArchitectureInfo row = glm4_moe;
  row.name = "dots1";
  row.rotary_share = 1;
  row.traits.norm_epsilon = 1e-6;
  row.traits.query_key_norm = QueryKeyNorm::heads;
  row.config =
      ConfigFile{.classes = {.generator = "Dots1ForCausalLM", .has_classifier = false},
                 .sizes = sizes_with_experts,
                 .needs_kv_heads = true,
                 .early_keys = {head_dim},
                 .keys = {attention_bias,
                          routed_experts,
                          {.key = "norm_topk_prob", .negated = &Model::expert_weights_of_all},
                          {.read = read_dots1_router, .write = write_router},
                          {.read = read_dots1_window, .write = write_dots1_window}}};
  return row;
}();

constexpr ArchitectureInfo hy_v3 = [] {
  ArchitectureInfo row =
      with_head_norms(with_sigmoid_scores(with_experts(like_llama("hy_v3"), 192, 8)));
  row.router = "mlp.router.gate";
  row.shared_experts = "mlp.shared_mlp";
  row.router_bias = "mlp.expert_bias";
  row.traits.query_key_norm = QueryKeyNorm::heads;
  row.traits.norm_epsilon = 1e-5;
  row.traits.rotary_base = 11158840;
  row.traits.head_dim = 128;
  row.config = ConfigFile{
      .classes = {.generator = "HYV3ForCausalLM", .has_classifier = false},
      .sizes = sizes_with_experts,
      .needs_kv_heads = true,
      .fixed = {{"mlp_bias", "false", "MLPs with biases are not built for it"}, no_pad_token},
      .early_keys = {head_dim},
      .keys = {attention_bias, {.read = read_hy_v3_router, .write = write_hy_v3_router}}};
  return row;
}();

constexpr ArchitectureInfo youtu = [] {
  ArchitectureInfo row = like_llama("youtu");
  row.traits.tied_embeddings = true;
  row.traits.rotary_interleaved = true;
  row.config = ConfigFile{.classes = {.generator = "YoutuForCausalLM", .has_classifier = false},
                          .early_keys = {latent_widths},
                          .keys = {latent_ranks, attention_bias, rotary_in_pairs}};
  return row;
}();

constexpr ArchitectureInfo minicpm3 = [] {
  ArchitectureInfo row = like_llama("minicpm3");
  row.traits.tied_embeddings = true;
  row.traits.norm_epsilon = 1e-5;
  row.config =
      ConfigFile{.classes = {.generator = "MiniCPM3ForCausalLM", .has_classifier = false},
                 .early_keys = {{.read = read_minicpm_widths, .write = write_latent_widths}},
                 .keys = {latent_ranks,
                          attention_bias,
                          mlp_bias,
                          {.read = read_minicpm_scales, .write = write_minicpm_scales}}};
  return row;
}();

// Solar Open has GLM-4.5's experts in all blocks, and rotary positions of whole heads.
constexpr ArchitectureInfo solar_open = [] {
  ArchitectureInfo row = glm4_moe;
  row.name = "solar_open";
  row.rotary_share = 1;
  row.traits.head_dim = 128;
  row.traits.rotary_base = 1e6;
  row.config.classes = {.generator = "SolarOpenForCausalLM", .has_classifier = false};
  row.config.fixed[1] = {"use_qk_norm", "false", "norms of queries and keys are not built for it"};
  row.config.keys[1] = {};
  row.config.keys[4] = {.read = read_solar_router, .write = write_router};
  return row;
}();

}  // namespace meshwright::architectures::families
