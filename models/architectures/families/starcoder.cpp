// Describes StarCoder (GPT BigCode) and StarCoder 2.

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_multi_query(Fields& fields, Model& model) {
  if (flag(fields, "multi_query", true)) model.kv_heads = 1;
}

void write_multi_query(const Model& model, json& config) {
  config["multi_query"] = model.kv_heads == 1;
}

}  // namespace

constexpr ArchitectureInfo gpt_bigcode = [] {
  ArchitectureInfo row = like_llama("gpt_bigcode");
  row.embeddings.unit = row.embeddings.tokens = "transformer.wte";
  row.embeddings.positions = "transformer.wpe";
  row.block = "transformer.h";
  row.attention = {"attn", "attn.c_q", "attn.c_k", "attn.c_v", "attn.c_proj"};
  row.published_qkv = "attn.c_attn";
  row.published_by_groups = true;
  row.mlp = {"mlp", "mlp.c_gate", "mlp.c_fc", "mlp.c_proj"};
  row.norms = {"ln_1", "ln_2", "transformer.ln_f"};
  row.rotary_share = 0;
  row.traits = {
      .family = Family::llama, .learned_positions = true, .activation = Activation::gelu_tanh};
  row.config = ConfigFile{
      .classes = {"GPTBigCodeForCausalLM"},
      .sizes = gpt2_sizes,
      .needs_ffn = false,
      .epsilon = "layer_norm_epsilon",
      .activation = {gelu, "activation_function"},
      .fixed = {scaled_scores, {"add_cross_attention", "false", "cross-attention is not built"}},
      .keys = {{.read = read_multi_query, .write = write_multi_query}}};
  return row;
}();

constexpr ArchitectureInfo starcoder2 = [] {
  ArchitectureInfo row = like_llama("starcoder2");
  row.mlp.in = "mlp.c_fc";
  row.mlp.out = "mlp.c_proj";
  row.traits = {.family = Family::llama, .activation = Activation::gelu_tanh};
  row.config = ConfigFile{
      .classes = {"Starcoder2ForCausalLM"},
      .needs_kv_heads = true,
      .epsilon = "norm_epsilon",
      .activation = {gelu},
      .early_keys = {unusual_head_dim},
      .keys = {{.key = "use_bias",
                .flags = {&Model::biases, &Model::attention_bias, &Model::attention_out_bias},
                .usual = true},
               window}};
  return row;
}();

}  // namespace meshwright::architectures::families
