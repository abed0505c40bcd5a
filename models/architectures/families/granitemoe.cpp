// Granite, dense or with experts, and HyperCLOVA X: factors of embeddings, scores, logits and the
// residual stream.
#include <algorithm>
#include <cmath>

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_logit_scale(Fields& fields, Model& model) {
  model.logit_scale = 1 / positive(fields, "logits_scaling", 1);
}

void write_logit_scale(const Model& model, json& config) {
  config["logits_scaling"] = 1 / model.logit_scale;
}

// Reads the factor of the scores. In the file it replaces 1 / sqrt(head width).
void read_score_factor(Fields& fields, Model& model) {
  model.score_factor =
      positive(fields, "attention_multiplier", 1) * std::sqrt(static_cast<double>(model.head_dim));
}

void write_score_factor(const Model& model, json& config) {
  config["attention_multiplier"] =
      model.score_factor / std::sqrt(static_cast<double>(model.head_dim));
}

// Without the key, scores are divided by the square root of a head's width.
void read_clova_factor(Fields& fields, Model& model) {
  if (is_given(fields, "attention_multiplier")) read_score_factor(fields, model);
}

// Reads the windows and sinks of a Granite with sliding windows. Its file may give each block a
// base of its rotary positions; 0 or null: the block has none.
void read_granite_windows(Fields& fields, Model& model) {
  read_windows_in_turn(fields, 4, 0, 128, model);
  const std::string_view key = "layer_rope_theta";
  if (!is_given(fields, key)) return;
  const json& bases = fields.raw(key);
  if (!bases.is_array()) fields.fail(key, "must be a list of numbers");
  check_names_each(fields, key, bases.size(), model);
  for (int block = 0; block < model.layers; ++block) {
    const json& base = bases[block];
    if (base.is_null() || base == 0)
      model.unrotated_blocks.push_back(block);
    else if (base.is_number())
      model.rotary_base = base.get<double>();
  }
  for (int block = 0; block < model.layers; ++block)
    if (!std::ranges::binary_search(model.unrotated_blocks, block) &&
        bases[block] != model.rotary_base)
      fields.fail(key, "several bases of rotary positions are not built; use one for all blocks");
}

void write_granite_windows(const Model& model, json& config) {
  write_windows_in_turn(model, config);
  json& bases = config["layer_rope_theta"] = json::array();
  for (int block = 0; block < model.layers; ++block)
    bases.push_back(model.has_rotary(block) ? model.rotary_base : 0);
}

constexpr ConfigKey embedding_factor{
    .key = "embedding_multiplier", .positive = &Model::embedding_scale, .usual = 1};
constexpr ConfigKey residual_factor{
    .key = "residual_multiplier", .positive = &Model::residual_scale, .usual = 1};
constexpr ConfigKey logit_factor{.read = read_logit_scale, .write = write_logit_scale};
constexpr ConfigKey score_factor{.read = read_score_factor, .write = write_score_factor};
constexpr ConfigKey granite_windows{.read = read_granite_windows, .write = write_granite_windows};
constexpr std::string_view no_yarn_beside_factor =
    "beside a factor of the scores is not built; use default";

constexpr ConfigKey shared_width{
    .key = "shared_intermediate_size", .count = &Model::shared_ffn, .usual = 1024, .least = 0};

}  // namespace

constexpr ArchitectureInfo granitemoe = [] {
  ArchitectureInfo row = with_experts(like_llama("granitemoe"), 8, 2);
  row.router = "block_sparse_moe.router.layer";
  row.mlp = {"block_sparse_moe", "block_sparse_moe.gate_linear", "block_sparse_moe.up_linear",
             "block_sparse_moe.output_linear"};
  row.published_expert_gate_in = "block_sparse_moe.input_linear";
  row.traits.router_aux_loss_coef = 0.001;
  row.config = ConfigFile{.classes = {"GraniteMoeForCausalLM"},
                          .no_yarn = no_yarn_beside_factor,
                          .fixed = {no_pad_token},
                          .early_keys = {unusual_head_dim},
                          .keys = {attention_bias, local_experts, embedding_factor, residual_factor,
                                   logit_factor, score_factor}};
  return row;
}();

constexpr ArchitectureInfo granite = [] {
  ArchitectureInfo row = like_llama("granite");
  row.config = ConfigFile{.classes = {.generator = "GraniteForCausalLM", .has_classifier = false},
                          .no_yarn = no_yarn_beside_factor,
                          .early_keys = {unusual_head_dim},
                          .keys = {attention_bias, mlp_bias, embedding_factor, residual_factor,
                                   logit_factor, score_factor}};
  return row;
}();

constexpr ArchitectureInfo hyperclovax = [] {
  ArchitectureInfo row = granite;
  row.name = "hyperclovax";
  row.attention_out_norm = "post_norm1";
  row.mlp_out_norm = "post_norm2";
  row.config.classes.generator = "HyperCLOVAXForCausalLM";
  row.config.fixed[0] = {"use_post_norm", "true",
                         "blocks without norms of what they add are not"
                         " built; describe such a model as granite",
                         true};
  row.config.early_keys[0] = head_dim;
  // It multiplies logits by the factor by which Granite divides them.
  row.config.keys[4] = {.key = "logits_scaling", .positive = &Model::logit_scale, .usual = 1};
  row.config.keys[5] = {.read = read_clova_factor, .write = write_score_factor};
  return row;
}();

constexpr ArchitectureInfo granite_swa = [] {
  ArchitectureInfo row = granite;
  row.name = "granite_swa";
  row.sinks = "self_attn.sinks";
  row.traits.attention_sinks = true;
  row.traits.norm_epsilon = 1e-5;
  row.traits.tied_embeddings = true;
  row.config.classes.generator = "GraniteSWAForCausalLM";
  row.config.keys[6] = granite_windows;
  return row;
}();

constexpr ArchitectureInfo granitemoeshared = [] {
  ArchitectureInfo row = granitemoe;
  row.name = "granitemoeshared";
  row.shared_experts = "shared_mlp";
  row.shared_gate_in = "input_linear";
  row.shared_out = "output_linear";
  row.config.classes = {.generator = "GraniteMoeSharedForCausalLM", .has_classifier = false};
  row.config.keys[6] = shared_width;
  return row;
}();

constexpr ArchitectureInfo granitemoe_swa = [] {
  ArchitectureInfo row = granitemoeshared;
  row.name = "granitemoe_swa";
  row.sinks = "self_attn.sinks";
  row.traits.attention_sinks = true;
  row.config.classes = {.generator = "GraniteMoeSWAForCausalLM", .has_classifier = false};
  row.config.keys[7] = granite_windows;
  return row;
}();

}  // namespace meshwright::architectures::families
