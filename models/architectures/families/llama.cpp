// Llama 2 and 3, Mistral, and models that are built like them up to one or two settings: Helium,
// CWM, Seed-OSS, Hunyuan and Ministral 3.

#include <cmath>

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Reads Mistral's window. If the key is absent, it is 4096, the default of transformers.
void read_mistral_window(Fields& fields, Model& model) {
  if (!fields.has("sliding_window")) model.local_window = 4096;
  read_window(fields, model);
}

// Writes a model with a window as Mistral, because transformers' Llama has none.
void write_as_mistral(const Model& model, json& config) {
  if (model.local_window == 0) return;
  const auto llama = config["architectures"][0].get<std::string>();
  config["model_type"] = "mistral";
  config["architectures"] = {"Mistral" + llama.substr(llama.find("For"))};
  config["sliding_window"] = model.local_window;
}

constexpr ConfigFile mistral_config = {.model_type = "mistral",
                                       .needs_kv_heads = true,
                                       .early_keys = {head_dim},
                                       .keys = {{.read = read_mistral_window}}};

// Newer files name models that are Llama's in every respect.
constexpr ConfigFile like_llama_file(std::string_view model_type) {
  ConfigFile file;
  file.model_type = model_type;
  file.fixed[0] = {"clip_qkv", "null", "queries, keys and values that are clipped are not built"};
  file.fixed[1] = {"use_sliding_window", "false", "windows are not built for it"};
  file.fixed[2] = {"qkv_bias", "false", "say biases by attention_bias and mlp_bias"};
  file.fixed[3] = {"bias", "false", "say biases by attention_bias and mlp_bias"};
  file.early_keys[0] = head_dim;
  file.keys[0] = attention_bias;
  file.keys[1] = mlp_bias;
  return file;
}
constexpr ConfigFile llama_files[] = {mistral_config, like_llama_file("exaone"),
                                      like_llama_file("internlm3"), like_llama_file("iquestcoder")};

void read_cwm_windows(Fields& fields, Model& model) {
  read_windows_in_turn(fields, 4, 0, 8192, model);
}

// Reads how queries of Ministral 3 grow with their position. The file says it beside the scaling of
// rotary positions.
void read_growing_queries(Fields& fields, Model& model) {
  const std::string_view factor = "llama_4_scaling_beta",
                         floor = "original_max_position_embeddings";
  model.temperature = 0.1;
  model.temperature_floor = 16384;
  if (!is_given(fields, "rope_scaling") && !is_given(fields, "rope_parameters")) {
    model.rotary_yarn = true;
    model.rotary_factor = 16;
    model.rotary_low = 1;
    model.rotary_high = 32;
    model.rotary_original = model.temperature_floor;
  }
  for (std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!is_given(fields, key)) continue;
    Fields rope = fields.object(key);
    model.temperature = rope.required<double>(factor);
    if (!(model.temperature > 0 && std::isfinite(model.temperature)))
      rope.fail(factor, "must be above 0");
    model.temperature_floor = number(rope, floor, 16384, 1);
  }
  read_window(fields, model);
}

// Reads one number of Hunyuan's experts, or a list of one for each block, which must be equal.
int number_of_each(Fields& fields, std::string_view key, Model& model) {
  if (!is_given(fields, key) || fields.raw(key).is_number()) return number(fields, key, 1, 1);
  const auto each = fields.required<std::vector<int>>(key);
  check_names_each(fields, key, each.size(), model);
  for (const int one : each)
    if (one != each.front() || one < 1)
      fields.fail(key, "blocks with several numbers of experts are not built; use one number");
  return each.front();
}

void read_hunyuan_experts(Fields& fields, Model& model) {
  const bool is_newer = is_given(fields, "num_local_experts");
  const std::string_view count = is_newer ? "num_local_experts" : "num_experts";
  const std::string_view chosen = is_given(fields, "moe_topk") ? "moe_topk" : "num_experts_per_tok";
  model.experts = number_of_each(fields, count, model);
  model.experts_per_token = number_of_each(fields, chosen, model);
  read_experts(fields, {"", ""}, model);
  model.router_aux_loss_coef = 0;
  model.shared_ffn = model.ffn;
}

void write_hunyuan_experts(const Model& model, json& config) {
  config["num_experts"] = model.experts;
  config["moe_topk"] = model.experts_per_token;
  write_own_expert_keys(model, config);
}

constexpr ConfigKey input_bias{.key = "attention_bias", .flags = {&Model::attention_bias}};

}  // namespace

constexpr ArchitectureInfo llama = [] {
  ArchitectureInfo row = like_llama("llama");
  row.config = ConfigFile{.classes = {"LlamaForCausalLM", "LlamaForQuestionAnswering"},
                          .early_keys = {head_dim},
                          .keys = {attention_bias, mlp_bias, {.write = write_as_mistral}}};
  row.other_configs = llama_files;
  return row;
}();

constexpr ArchitectureInfo mixtral = [] {
  ArchitectureInfo row = with_experts(like_llama("mixtral"), 8, 2);
  row.router = "block_sparse_moe.gate";
  row.mlp = {"block_sparse_moe", "block_sparse_moe.experts.*.w1", "block_sparse_moe.experts.*.w3",
             "block_sparse_moe.experts.*.w2"};
  row.traits.norm_epsilon = 1e-5;
  row.traits.router_aux_loss_coef = 0.001;
  row.config = ConfigFile{
      .classes = {"MixtralForCausalLM", "MixtralForQuestionAnswering"},
      .needs_kv_heads = true,
      .fixed = {{"sliding_window", "null", "attention over a sliding window is not built"},
                {"router_jitter_noise", "0.0", "noise on the router's inputs is not built"}},
      .early_keys = {head_dim, local_experts}};
  return row;
}();

constexpr ArchitectureInfo helium = [] {
  ArchitectureInfo row = like_llama("helium");
  row.traits.rotary_interleaved = true;
  row.traits.norm_epsilon = 1e-8;
  row.traits.rotary_base = 1e5;
  row.config = ConfigFile{
      .classes = {"HeliumForCausalLM"}, .early_keys = {head_dim}, .keys = {input_bias, mlp_bias}};
  return row;
}();

constexpr ArchitectureInfo cwm = [] {
  ArchitectureInfo row = like_llama("cwm");
  row.traits.norm_epsilon = 1e-5;
  row.traits.rotary_base = 1e6;
  row.traits.head_dim = 128;
  row.config = ConfigFile{.classes = {"CwmForCausalLM"},
                          .needs_kv_heads = true,
                          .early_keys = {head_dim},
                          .keys = {{.read = read_cwm_windows, .write = write_windows_in_turn}}};
  return row;
}();

constexpr ArchitectureInfo seed_oss = [] {
  ArchitectureInfo row = like_llama("seed_oss");
  row.traits.attention_bias = true;
  row.traits.head_dim = 128;
  row.config = ConfigFile{
      .classes = {"SeedOssForCausalLM", "SeedOssForQuestionAnswering"},
      .needs_kv_heads = true,
      .early_keys = {head_dim},
      .keys = {{.key = "attention_bias", .flags = {&Model::attention_bias}, .usual = true},
               {.key = "attention_out_bias", .flags = {&Model::attention_out_bias}},
               mlp_bias}};
  return row;
}();

constexpr ArchitectureInfo hunyuan_v1_dense = [] {
  ArchitectureInfo row = like_llama("hunyuan_v1_dense");
  row.q_norm = "self_attn.query_layernorm";
  row.k_norm = "self_attn.key_layernorm";
  row.traits.query_key_norm = QueryKeyNorm::heads_turned;
  row.traits.norm_epsilon = 1e-5;
  row.config = ConfigFile{
      .classes = {"HunYuanDenseV1ForCausalLM"},
      .fixed = {{"use_qk_norm", "true", "blocks without norms of queries and keys are Llama's"},
                {"use_cla", "false", "keys and values that several blocks share are not built"},
                no_pad_token},
      .early_keys = {head_dim},
      .keys = {attention_bias}};
  return row;
}();

constexpr ArchitectureInfo hunyuan_v1_moe = [] {
  ArchitectureInfo row = with_experts(hunyuan_v1_dense, 1, 1);
  row.name = "hunyuan_v1_moe";
  row.router = "mlp.gate.wg";
  row.shared_experts = "mlp.shared_mlp";
  row.config.classes = {.generator = "HunYuanMoEV1ForCausalLM", .has_classifier = false};
  row.config.keys[1] = {.read = read_hunyuan_experts, .write = write_hunyuan_experts};
  return row;
}();

constexpr ArchitectureInfo ministral3 = [] {
  ArchitectureInfo row = like_llama("ministral3");
  row.grows_from_floor = true;
  row.traits.norm_epsilon = 1e-5;
  row.traits.rotary_base = 1e6;
  row.traits.head_dim = 128;
  row.config = ConfigFile{.classes = {"Ministral3ForCausalLM", "Ministral3ForQuestionAnswering"},
                          .needs_kv_heads = true,
                          .fixed = {no_pad_token},
                          .early_keys = {head_dim},
                          .keys = {{.read = read_growing_queries, .write = write_window}}};
  return row;
}();

}  // namespace meshwright::architectures::families
