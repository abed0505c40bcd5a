// Aria's language model has Llama's attention, and experts whose matrices are published as one
// tensor [in, out] for all of them.
#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_aria_experts(Fields& fields, Model& model) {
  read_experts(fields, {"moe_num_experts", "moe_topk"}, model);
  model.router_aux_loss_coef = 0;
  model.shared_ffn = number(fields, "moe_num_shared_experts", 2, 0) * model.ffn;
}

void write_aria_experts(const Model& model, json& config) {
  config["moe_num_experts"] = model.experts;
  config["moe_topk"] = model.experts_per_token;
  config["moe_num_shared_experts"] = model.shared_ffn / model.ffn;
  write_own_expert_keys(model, config);
}

}  // namespace

constexpr ArchitectureInfo aria_text = [] {
  ArchitectureInfo row = with_experts(like_llama("aria_text"), 8, 2);
  row.router = "mlp.router";
  row.mlp = {"mlp", "mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.fc2.weight"};
  row.published_expert_gate_in = "mlp.experts.fc1.weight";
  row.bare_experts = true;
  row.shared_experts = "mlp.shared_experts";
  row.config = ConfigFile{
      .classes = {.generator = "AriaTextForCausalLM", .has_classifier = false},
      .fixed = {no_pad_token},
      .early_keys = {head_dim},
      .keys = {attention_bias, mlp_bias, {.read = read_aria_experts, .write = write_aria_experts}}};
  return row;
}();

}  // namespace meshwright::architectures::families
