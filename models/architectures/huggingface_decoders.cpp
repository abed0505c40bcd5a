#include "models/architectures/huggingface_decoders.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/program/graph/experts.h"

namespace meshwright::decoders {

namespace {

bool flag(Fields& fields, std::string_view key, bool usual) {
  return is_given(fields, key) ? fields.required<bool>(key) : usual;
}

int number(Fields& fields, std::string_view key, int usual, int least) {
  const int value = is_given(fields, key) ? fields.required<int>(key) : usual;
  if (value < least)
    fields.fail(key, std::to_string(value) + " must be " + std::to_string(least) + " or more");
  return value;
}

void set_biases(Model& model, bool biases) {
  model.biases = model.attention_bias = model.attention_out_bias = biases;
}

void check_names_each(const Fields& fields, std::string_view key, std::size_t named,
                      const Model& model) {
  if (static_cast<int>(named) != model.layers)
    fields.fail(key, "names " + std::to_string(named) + " blocks, but the model has " +
                         std::to_string(model.layers) + "; name each");
}

// Checks `layer_types`, in which newer files name the kind of each block, against the windows that
// the other keys give.
void check_layer_types(Fields& fields, const Model& model) {
  const std::string_view key = "layer_types";
  if (!is_given(fields, key)) return;
  const auto types = fields.required<std::vector<std::string>>(key);
  check_names_each(fields, key, types.size(), model);
  for (int block = 0; block < model.layers; ++block) {
    const std::string built = model.window_of(block) > 0 ? "sliding_attention" : "full_attention";
    const std::string& type = types[static_cast<std::size_t>(block)];
    if (type != built)
      fields.fail(key, "block " + std::to_string(block) + " is '" + type +
                           "', the windows that the other keys give make it '" + built +
                           "'; other orders are not built");
  }
}

// Reads Qwen's window. If `use_sliding_window` is set, blocks from `max_window_layers` on have it.
void read_qwen_window(Fields& fields, Model& model) {
  if (flag(fields, "use_sliding_window", false)) {
    if (!fields.has("sliding_window") || is_given(fields, "sliding_window"))
      model.local_window = number(fields, "sliding_window", 4096, 1);
    model.local_from = number(fields, "max_window_layers", 28, 0);
  }
  check_layer_types(fields, model);
}

// Returns a soft cap, or `usual` if the key is absent. A null in the file means that there is none,
// for which it returns 0.
double cap(Fields& fields, std::string_view key, double usual) {
  if (!fields.has(key)) return usual;
  if (!is_given(fields, key)) return 0;
  const auto value = fields.required<double>(key);
  if (!(value > 0 && std::isfinite(value)))
    fields.fail(key, "a soft cap must be above 0; null: there is none");
  return value;
}

// Sets which blocks have an ordinary MLP instead of experts. Its width is the value of `key`.
void set_dense_blocks(Fields& fields, std::string_view said_by, std::vector<int> blocks,
                      Model& model, std::string_view key = "intermediate_size") {
  if (static_cast<int>(blocks.size()) == model.layers)
    fields.fail(said_by, "no block has experts; describe a model without them");
  if (!blocks.empty()) {
    if (!is_given(fields, key)) fields.fail(key, "missing; blocks without experts need it");
    model.dense_ffn = number(fields, key, 0, 1);
  }
  model.dense_blocks = std::move(blocks);
}

// Reads which blocks of Qwen have experts: every `decoder_sparse_step`-th block, except for those
// in `mlp_only_layers`.
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

// Reads how many of DeepSeek's first blocks have no experts.
void read_first_dense(Fields& fields, int usual, Model& model) {
  const int count = number(fields, "first_k_dense_replace", usual, 0);
  std::vector<int> dense;
  for (int block = 0; block < std::min(count, model.layers); ++block) dense.push_back(block);
  set_dense_blocks(fields, "first_k_dense_replace", std::move(dense), model);
}

// The defaults of DeepSeek's router: its groups of experts, the factor on the experts' weights, and
// the number of shared experts.
struct DeepseekRouter {
  int groups = 1, groups_per_token = 1, shared = 1;
  double scale = 1;
};
void read_deepseek_router(Fields& fields, const DeepseekRouter& usual, Model& model) {
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
  const std::string_view scale = "routed_scaling_factor";
  model.expert_weight_scale = usual.scale;
  if (is_given(fields, scale)) model.expert_weight_scale = fields.required<double>(scale);
  if (!(model.expert_weight_scale > 0 && std::isfinite(model.expert_weight_scale)))
    fields.fail(scale, "must be above 0");
  const int shared = number(fields, "n_shared_experts", usual.shared, 0);
  if (shared > most_experts) fields.fail("n_shared_experts", "is out of range");
  model.shared_ffn = shared * model.ffn;
}

std::string_view key_of_routed(Fields& fields) {
  return is_given(fields, "num_local_experts") ? "num_local_experts" : "n_routed_experts";
}

// Reads the widths of latent attention. Must be called before the sizes are read.
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

// Reads the ranks of latent attention. Must be called after the sizes are read.
void read_latent_attention(Fields& fields, Model& model) {
  constexpr int most = 1 << 20;
  model.kv_lora_rank = number(fields, "kv_lora_rank", 512, 1);
  const bool queries_too = !fields.has("q_lora_rank") || is_given(fields, "q_lora_rank");
  model.q_lora_rank = queries_too ? number(fields, "q_lora_rank", 1536, 1) : 0;
  if (model.kv_lora_rank > most || model.q_lora_rank > most)
    fields.fail("kv_lora_rank", "a rank is out of range");
  if (model.kv_heads != model.heads)
    fields.fail("num_key_value_heads", "latent attention has as many as there are heads");
  model.attention_bias = model.attention_out_bias = flag(fields, "attention_bias", false);
}

// Sets the number of groups of heads that share a key and a value.
void set_kv_heads(const Fields& fields, std::string_view key, int count, Model& model) {
  model.kv_heads = count;
  if (count < 1 || model.heads % count != 0)
    fields.fail(key, std::to_string(count) + " does not divide the " + std::to_string(model.heads) +
                         " heads; use a number that does");
}

}  // namespace

bool gives_head_width(Fields& fields, Model& model) {
  switch (model.architecture) {
    case Architecture::qwen3:
      if (!fields.has("head_dim")) model.head_dim = 128;
      return true;
    case Architecture::gemma:
    case Architecture::gemma2:
    case Architecture::gemma3_text:
      if (!fields.has("head_dim")) model.head_dim = 256;
      return true;
    case Architecture::gpt_oss:
      if (!fields.has("head_dim")) model.head_dim = 64;
      return true;
    case Architecture::llama4_text:
      if (!fields.has("head_dim")) model.head_dim = 128;
      return true;
    case Architecture::deepseek_v2:
    case Architecture::deepseek_v3:
      read_latent_widths(fields, model);
      return false;
    case Architecture::llama:
    case Architecture::mixtral:
    case Architecture::qwen2:
    case Architecture::starcoder2:
    case Architecture::phi3:
    case Architecture::olmo2:
    case Architecture::qwen3_moe:
    case Architecture::olmoe:
    case Architecture::glm4_moe:
    case Architecture::qwen2_moe:
    case Architecture::granitemoe:
    case Architecture::nemotron:
    case Architecture::cohere:
      return true;
    default:
      return false;
  }
}

void read_biases(Fields& fields, Model& model) {
  model.attention_bias = model.attention_out_bias = flag(fields, "attention_bias", false);
  model.biases = flag(fields, "mlp_bias", false);
}

void read_window(Fields& fields, Model& model) {
  if (is_given(fields, "sliding_window"))
    model.local_window = number(fields, "sliding_window", 0, 1);
  check_layer_types(fields, model);
}

// Reads Mistral's window. If the key is absent, it is 4096, the default of transformers.
void read_mistral(Fields& fields, Model& model) {
  if (!fields.has("sliding_window")) model.local_window = 4096;
  read_window(fields, model);
}

void read_qwen2(Fields& fields, Model& model) { read_qwen_window(fields, model); }

void read_qwen3(Fields& fields, Model& model) {
  model.attention_bias = model.attention_out_bias = flag(fields, "attention_bias", false);
  read_qwen_window(fields, model);
}

namespace {

// Reads the experts of Qwen and OLMoE. The model has a balancing loss only if it returns its
// router's logits. The weights of a token's experts add up to 1 only if `norm_topk_prob` is set.
void read_qwen_experts(Fields& fields, Model& model) {
  model.router_aux_loss_coef = 0.001;
  const std::string_view count =
      is_given(fields, "num_experts") ? "num_experts" : "num_local_experts";  // newer
  read_experts(fields, {count, "num_experts_per_tok"}, model);
  model.expert_weights_of_all = !flag(fields, "norm_topk_prob", false);
  if (!flag(fields, "output_router_logits", false)) model.router_aux_loss_coef = 0;
  if (model.architecture != Architecture::olmoe) read_sparse_blocks(fields, model);
}

}  // namespace

void read_qwen3_moe(Fields& fields, Model& model) {
  model.attention_bias = model.attention_out_bias = flag(fields, "attention_bias", false);
  read_qwen_experts(fields, model);
}

// Reads the keys of Qwen2 MoE. Only the matrices of queries, keys and values can have biases.
void read_qwen2_moe(Fields& fields, Model& model) {
  model.attention_bias = flag(fields, "qkv_bias", true);
  read_qwen_experts(fields, model);
  model.shared_ffn = number(fields, "shared_expert_intermediate_size", 5632, 1);
  model.shared_gate = true;
}

void read_granitemoe(Fields& fields, Model& model) {
  const auto factor = [&](std::string_view key) {
    const double value = is_given(fields, key) ? fields.required<double>(key) : 1;
    if (!(value > 0 && std::isfinite(value))) fields.fail(key, "must be above 0");
    return value;
  };
  model.attention_bias = model.attention_out_bias = flag(fields, "attention_bias", false);
  model.router_aux_loss_coef = 0.001;
  read_experts(fields, {"num_local_experts", "num_experts_per_tok"}, model);
  if (!flag(fields, "output_router_logits", false)) model.router_aux_loss_coef = 0;
  model.embedding_scale = factor("embedding_multiplier");
  model.residual_scale = factor("residual_multiplier");
  model.logit_scale = 1 / factor("logits_scaling");
  // The factor of the scores in the file replaces 1 / sqrt(head width).
  model.score_factor =
      factor("attention_multiplier") * std::sqrt(static_cast<double>(model.head_dim));
}

// Reads the keys of gpt-oss. Every other block has a window, from the first on. If the file does
// not give the scaling of positions, it is YaRN with the published constants.
void read_gpt_oss(Fields& fields, Model& model) {
  model.attention_bias = model.attention_out_bias = flag(fields, "attention_bias", true);
  model.router_bias = model.expert_biases = model.attention_sinks = true;
  model.router_aux_loss_coef = 0.001;
  read_experts(fields, {"num_local_experts", "num_experts_per_tok"}, model);
  if (!flag(fields, "output_router_logits", false)) model.router_aux_loss_coef = 0;
  const std::string_view limit = "swiglu_limit";
  model.swiglu_limit = is_given(fields, limit) ? fields.required<double>(limit) : 7;
  if (!(model.swiglu_limit > 0 && std::isfinite(model.swiglu_limit)))
    fields.fail(limit, "must be above 0");
  model.local_window = number(fields, "sliding_window", 128, 1);
  model.local_period = 2;
  model.global_place = 1;
  check_layer_types(fields, model);
  model.rotary_base = 150000;
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

// Reads the keys of glm4_moe. Only the matrices of queries, keys and values can have biases. The
// choice of experts is balanced by biases instead of a loss.
void read_glm4_moe(Fields& fields, Model& model) {
  model.attention_bias = flag(fields, "attention_bias", false);
  if (flag(fields, "use_qk_norm", false)) model.query_key_norm = QueryKeyNorm::heads;
  read_experts(fields, {key_of_routed(fields), "num_experts_per_tok"}, model);
  model.sigmoid_scores = model.expert_bias = model.groups_by_two = true;
  model.expert_weights_of_all = !flag(fields, "norm_topk_prob", true);
  read_deepseek_router(fields, {}, model);
  read_first_dense(fields, 1, model);
}

namespace {

// Reads which blocks have no rotary positions: those with a 0 in `no_rope_layers`, or every
// `no_rope_layer_interval`-th block if the list is absent or empty.
void read_blocks_without_rotary(Fields& fields, Model& model) {
  const std::string_view key = "no_rope_layers";
  const int interval = number(fields, "no_rope_layer_interval", 4, 1);
  std::vector<int> with;
  if (is_given(fields, key)) with = fields.required<std::vector<int>>(key);
  if (!with.empty()) check_names_each(fields, key, with.size(), model);
  for (int block = 0; block < model.layers; ++block)
    if (with.empty() ? (block + 1) % interval == 0 : with[static_cast<std::size_t>(block)] == 0)
      model.unrotated_blocks.push_back(block);
}

// Reads which blocks of Llama 4 have experts: those in `moe_layers`, or every
// `interleave_moe_layer_step`-th block.
void read_blocks_with_experts(Fields& fields, Model& model) {
  const std::string_view key = "moe_layers";
  const int step = number(fields, "interleave_moe_layer_step", 1, 1);
  std::vector<int> named, dense;
  if (is_given(fields, key)) named = fields.required<std::vector<int>>(key);
  for (const int block : named)
    if (block < 0 || block >= model.layers)
      fields.fail(key, std::to_string(block) + " is no block of the model, which has " +
                           std::to_string(model.layers));
  for (int block = 0; block < model.layers; ++block)
    if (is_given(fields, key) ? std::ranges::find(named, block) == named.end()
                              : (block + 1) % step != 0)
      dense.push_back(block);
  set_dense_blocks(fields, is_given(fields, key) ? key : "interleave_moe_layer_step",
                   std::move(dense), model, "intermediate_size_mlp");
}

// Reads the size of chunks. In blocks with rotary positions, tokens attend to their own chunk, and
// in the others to all earlier tokens.
void read_chunks(Fields& fields, Model& model) {
  const std::string_view size = "attention_chunk_size", key = "layer_types";
  if (fields.has(size) && !is_given(fields, size))
    fields.fail(size, "null: blocks with rotary positions see chunks; give their size");
  model.attention_chunk = number(fields, size, 8192, 1);
  if (!is_given(fields, key)) return;
  const auto types = fields.required<std::vector<std::string>>(key);
  check_names_each(fields, key, types.size(), model);
  for (int block = 0; block < model.layers; ++block) {
    const bool turns = !std::ranges::binary_search(model.unrotated_blocks, block);
    const std::string built = turns ? "chunked_attention" : "full_attention";
    if (types[static_cast<std::size_t>(block)] != built)
      fields.fail(key, "block " + std::to_string(block) + " is '" +
                           types[static_cast<std::size_t>(block)] + "', no_rope_layers makes it '" +
                           built + "'; other orders are not built");
  }
}

// Reads how queries without rotary positions are scaled. `attn_temperature_tuning` is a number in
// older files and a flag in newer ones.
void read_temperature(Fields& fields, Model& model) {
  const std::string_view key = "attn_temperature_tuning", scale = "attn_scale";
  const bool tunes = is_given(fields, key) && fields.raw(key).is_number()
                         ? fields.required<double>(key) != 0
                         : flag(fields, key, true);
  model.temperature_floor = number(fields, "floor_scale", 8192, 1);
  model.temperature = is_given(fields, scale) ? fields.required<double>(scale) : 0.1;
  if (!(model.temperature >= 0 && std::isfinite(model.temperature)))
    fields.fail(scale, "must be 0 or more");
  if (!tunes) model.temperature = 0;
}

}  // namespace

// Reads the keys of Llama 4. transformers has no balancing loss for it, and its experts are as wide
// as the one for all tokens.
void read_llama4(Fields& fields, Model& model) {
  model.attention_bias = model.attention_out_bias = flag(fields, "attention_bias", false);
  if (flag(fields, "use_qk_norm", true)) model.query_key_norm = QueryKeyNorm::turned;
  model.rotary_base = 5e5;
  read_experts(fields, {"num_local_experts", "num_experts_per_tok"}, model);
  if (model.experts_per_token != 1)
    fields.fail("num_experts_per_tok",
                std::to_string(model.experts_per_token) +
                    ": several experts that read weighed tokens are not built; set it to 1");
  model.router_aux_loss_coef = 0;
  model.sigmoid_scores = model.expert_weights_of_all = model.weighed_inputs = true;
  model.shared_ffn = model.ffn;
  read_blocks_without_rotary(fields, model);
  read_blocks_with_experts(fields, model);
  read_chunks(fields, model);
  read_temperature(fields, model);
}

void read_deepseek_v2(Fields& fields, Model& model) {
  read_latent_attention(fields, model);
  read_experts(fields, {key_of_routed(fields), "num_experts_per_tok"}, model);
  model.expert_weights_of_all = true;
  const std::string_view key = "topk_method";
  const auto method =
      is_given(fields, key) ? fields.required<std::string>(key) : std::string("greedy");
  choose(fields, key, "topk_method", method, {"greedy", "group_limited_greedy"});
  read_deepseek_router(fields, {.shared = 2}, model);
  if (method == "greedy") model.expert_groups = model.groups_per_token = 1;
  read_first_dense(fields, 0, model);
}

void read_deepseek_v3(Fields& fields, Model& model) {
  read_latent_attention(fields, model);
  model.rotary_interleaved = flag(fields, "rope_interleave", true);
  read_experts(fields, {key_of_routed(fields), "num_experts_per_tok"}, model);
  model.sigmoid_scores = model.expert_bias = model.groups_by_two = true;
  model.expert_weights_of_all = !flag(fields, "norm_topk_prob", true);
  read_deepseek_router(fields, {8, 4, 1, 2.5}, model);
  read_first_dense(fields, 3, model);
}

void read_olmoe(Fields& fields, Model& model) {
  read_qwen3_moe(fields, model);
  if (!is_given(fields, "router_aux_loss_coef") && flag(fields, "output_router_logits", false))
    model.router_aux_loss_coef = 0.01;
}

void read_starcoder2(Fields& fields, Model& model) {
  set_biases(model, flag(fields, "use_bias", true));
  read_window(fields, model);
}

void read_stablelm(Fields& fields, Model& model) {
  model.attention_bias = flag(fields, "use_qkv_bias", false);
  model.parallel_residual = model.one_norm = flag(fields, "use_parallel_residual", false);
}

void read_opt(Fields& fields, Model& model) {
  const int width = number(fields, "word_embed_proj_dim", model.hidden, 1);
  if (width != model.hidden)
    fields.fail("word_embed_proj_dim", std::to_string(width) + " is not hidden_size " +
                                           std::to_string(model.hidden) +
                                           ": tables of another width are not built for OPT");
}

void read_gemma(Fields& fields, Model& model) {
  read_biases(fields, model);
  model.biases = false;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
}

// Reads the keys of Gemma 2. Its blocks alternate between a window and all earlier tokens, or all
// attend to all earlier tokens.
void read_gemma2(Fields& fields, Model& model) {
  read_gemma(fields, model);
  model.score_width = number(fields, "query_pre_attn_scalar", 256, 1);
  model.score_cap = cap(fields, "attn_logit_softcapping", 50);
  model.logit_cap = cap(fields, "final_logit_softcapping", 30);
  const std::string_view key = "layer_types";
  const auto types = is_given(fields, key) ? fields.required<std::vector<std::string>>(key)
                                           : std::vector<std::string>{"sliding_attention"};
  const bool any_window = std::any_of(
      types.begin(), types.end(), [](const std::string& type) { return type != "full_attention"; });
  model.local_window = any_window ? number(fields, "sliding_window", 4096, 1) : 0;
  model.local_period = 2;
  model.global_place = 1;
  check_layer_types(fields, model);
}

// Reads the keys of Gemma 3. One block in `sliding_window_pattern` attends to all earlier tokens.
// The others attend to a window, and their rotary positions have a base of their own.
void read_gemma3(Fields& fields, Model& model) {
  read_gemma(fields, model);
  model.score_width = number(fields, "query_pre_attn_scalar", 256, 1);
  model.score_cap = cap(fields, "attn_logit_softcapping", 0);
  model.logit_cap = cap(fields, "final_logit_softcapping", 0);
  model.rotary_base = 1e6;
  const std::string_view local = "rope_local_base_freq";
  model.local_rotary_base = is_given(fields, local) ? fields.required<double>(local) : 1e4;
  int pattern = number(fields, "sliding_window_pattern", 6, 1);
  const std::string_view key = "layer_types";
  if (is_given(fields, key)) {
    const auto types = fields.required<std::vector<std::string>>(key);
    const auto full = std::ranges::find(types, "full_attention");
    pattern = static_cast<int>(full - types.begin()) + 1;
  }
  model.local_window = pattern > 1 ? number(fields, "sliding_window", 4096, 1) : 0;
  model.local_period = pattern;
  model.global_place = pattern - 1;
  check_layer_types(fields, model);
}

void read_falcon(Fields& fields, Model& model) {
  set_biases(model, flag(fields, "bias", false));
  const std::string_view key = "num_kv_heads";
  const bool is_new = flag(fields, "new_decoder_architecture", false);
  const int of_old = flag(fields, "multi_query", true) ? 1 : model.heads;
  set_kv_heads(fields, key, is_new ? number(fields, key, model.heads, 1) : of_old, model);
  model.parallel_residual = flag(fields, "parallel_attn", true);
  const std::string_view norms = "num_ln_in_parallel_attn";
  const int count = number(fields, norms, is_new ? 2 : 1, 1);
  if (count > 2 || (count == 2 && !is_new))
    fields.fail(norms, std::to_string(count) +
                           ": two norms of a block's input come with new_decoder_architecture");
  if (is_new && !model.parallel_residual)
    fields.fail("parallel_attn",
                "false: new_decoder_architecture always has both branches in "
                "parallel; set it to true");
  if (count == 2) model.architecture = Architecture::falcon_two_norms;
  model.one_norm = model.parallel_residual && count == 1;
}

void read_gpt_bigcode(Fields& fields, Model& model) {
  if (flag(fields, "multi_query", true)) model.kv_heads = 1;
}

void read_cohere(Fields& fields, Model& model) {
  model.attention_bias = model.attention_out_bias = flag(fields, "attention_bias", false);
  const std::string_view key = "logit_scale";
  model.logit_scale = is_given(fields, key) ? fields.required<double>(key) : 0.0625;
  if (!(model.logit_scale > 0 && std::isfinite(model.logit_scale)))
    fields.fail(key, "must be above 0");
}

void read_internlm2(Fields& fields, Model& model) {
  const bool biases = flag(fields, "bias", true);
  model.attention_bias = model.attention_out_bias = biases;
}

}  // namespace meshwright::decoders
