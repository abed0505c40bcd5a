// Llama 4 has blocks without rotary positions among blocks that attend to chunks. The router's
// weights multiply the inputs of its experts, and one more expert reads all tokens.
#include <algorithm>
#include <cmath>

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Reads the experts. transformers has no balancing loss for them, and the MLP for all tokens is as
// wide as one of them. Throws InputError if a token goes to several experts.
void read_llama4_experts(Fields& fields, Model& model) {
  read_experts(fields, {"num_local_experts", "num_experts_per_tok"}, model);
  if (model.experts_per_token != 1)
    fields.fail("num_experts_per_tok",
                std::to_string(model.experts_per_token) +
                    ": several experts that read weighed tokens are not built; set it to 1");
  model.router_aux_loss_coef = 0;
  model.shared_ffn = model.ffn;
}

// Reads which blocks have experts: those in `moe_layers`, or every
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

void write_blocks_with_experts(const Model& model, json& config) {
  config["intermediate_size_mlp"] = model.dense_ffn > 0 ? model.dense_ffn : model.ffn;
  json& with = config["moe_layers"] = json::array();
  for (int block = 0; block < model.layers; ++block)
    if (model.has_experts(block)) with.push_back(block);
}

// Returns the kind of a block. In blocks with rotary positions, tokens attend to their own chunk,
// and in the others to all earlier tokens.
std::string_view kind_by_chunks(const Model& model, int block) {
  const bool turns = !std::ranges::binary_search(model.unrotated_blocks, block);
  return turns ? "chunked_attention" : "full_attention";
}

void read_chunks(Fields& fields, Model& model) {
  const std::string_view size = "attention_chunk_size";
  if (fields.has(size) && !is_given(fields, size))
    fields.fail(size, "null: blocks with rotary positions see chunks; give their size");
  model.attention_chunk = number(fields, size, 8192, 1);
  check_block_kinds(fields, model, kind_by_chunks, "no_rope_layers makes");
}

void write_chunks(const Model& model, json& config) {
  config["attention_chunk_size"] = model.attention_chunk;
  write_block_kinds(model, kind_by_chunks, config);
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

void write_temperature(const Model& model, json& config) {
  config["attn_temperature_tuning"] = model.temperature > 0;
  config["attn_scale"] = model.temperature;
  config["floor_scale"] = model.temperature_floor;
}

// Describes the config of the language model only. Published files also describe a model for
// images.
constexpr ConfigFile text_config = {
    .classes = {"Llama4ForCausalLM"},
    .needs_kv_heads = true,
    .no_yarn = "beside blocks without rotary positions is not built; use llama3",
    .fixed = {no_pad_token},
    .early_keys = {head_dim},
    .keys = {attention_bias,
             {.key = "use_qk_norm", .norm = QueryKeyNorm::turned, .usual = true},
             {.read = read_llama4_experts, .write = write_local_experts},
             {.read = read_blocks_without_rotary, .write = write_blocks_without_rotary},
             {.read = read_blocks_with_experts, .write = write_blocks_with_experts},
             {.read = read_chunks, .write = write_chunks},
             {.read = read_temperature, .write = write_temperature}}};

constexpr ConfigFile whole_config = [] {
  ConfigFile file = text_config;
  file.model_type = "llama4";
  file.in_text_config = true;
  return file;
}();

}  // namespace

constexpr ArchitectureInfo llama4_text = [] {
  ArchitectureInfo row = with_experts(like_llama("llama4_text"), 16, 1);
  row.q_norm = row.k_norm = "self_attn.qk_norm";  // the norm has no weights
  row.router = "feed_forward.router";
  row.mlp = {"feed_forward", "feed_forward.experts.gate_proj", "feed_forward.experts.up_proj",
             "feed_forward.experts.down_proj"};
  row.published_expert_gate_in = "feed_forward.experts.gate_up_proj";
  row.bare_experts = true;
  row.shared_experts = "feed_forward.shared_expert";
  row.traits.norm_epsilon = 1e-5;
  row.traits.head_dim = 128;
  row.traits.rotary_base = 5e5;
  row.traits.rotary_interleaved = true;
  row.traits.sigmoid_scores = true;
  row.traits.expert_weights_of_all = row.traits.weighed_inputs = true;
  row.config = text_config;
  row.other_configs = {&whole_config, 1};
  return row;
}();

}  // namespace meshwright::architectures::families
