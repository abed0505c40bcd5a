// Granite with experts has factors of embeddings, scores, logits and the residual stream.
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

}  // namespace

constexpr ArchitectureInfo granitemoe = [] {
  ArchitectureInfo row = with_experts(like_llama("granitemoe"), 8, 2);
  row.router = "block_sparse_moe.router.layer";
  row.mlp = {"block_sparse_moe", "block_sparse_moe.gate_linear", "block_sparse_moe.up_linear",
             "block_sparse_moe.output_linear"};
  row.published_expert_gate_in = "block_sparse_moe.input_linear";
  row.traits.router_aux_loss_coef = 0.001;
  row.config = ConfigFile{
      .classes = {"GraniteMoeForCausalLM"},
      .no_yarn = "beside a factor of the scores is not built; use default",
      .fixed = {no_pad_token},
      .early_keys = {unusual_head_dim},
      .keys = {attention_bias,
               local_experts,
               {.key = "embedding_multiplier", .positive = &Model::embedding_scale, .usual = 1},
               {.key = "residual_multiplier", .positive = &Model::residual_scale, .usual = 1},
               {.read = read_logit_scale, .write = write_logit_scale},
               {.read = read_score_factor, .write = write_score_factor}}};
  return row;
}();

}  // namespace meshwright::architectures::families
