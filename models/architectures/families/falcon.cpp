// Falcon has both branches of a block in parallel, with one norm or two.

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_falcon(Fields& fields, Model& model) {
  const std::string_view key = "num_kv_heads";
  const bool is_new = flag(fields, "new_decoder_architecture", false);
  const int of_old = flag(fields, "multi_query", true) ? 1 : model.heads;
  const int kv_heads = is_new ? number(fields, key, model.heads, 1) : of_old;
  model.kv_heads = kv_heads;
  if (kv_heads < 1 || model.heads % kv_heads != 0)
    fields.fail(key, std::to_string(kv_heads) + " does not divide the " +
                         std::to_string(model.heads) + " heads; use a number that does");
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

void write_falcon(const Model& model, json& config) {
  const bool two_norms = model.architecture == Architecture::falcon_two_norms;
  const bool is_new = two_norms || (model.kv_heads > 1 && model.kv_heads < model.heads);
  config["num_kv_heads"] = model.kv_heads;
  config["new_decoder_architecture"] = is_new;
  config["multi_query"] = !is_new && model.kv_heads == 1;
  config["parallel_attn"] = model.parallel_residual;
  if (model.parallel_residual) config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
}

}  // namespace

constexpr ArchitectureInfo falcon = [] {
  ArchitectureInfo row = like_llama("falcon");
  row.embeddings.unit = row.embeddings.tokens = "transformer.word_embeddings";
  row.block = "transformer.h";
  row.attention = {"self_attention", "self_attention.query", "self_attention.key",
                   "self_attention.value", "self_attention.dense"};
  row.published_qkv = "self_attention.query_key_value";
  row.published_by_groups = true;
  row.mlp = {"mlp", "mlp.dense_gate", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"};
  row.norms.final = "transformer.ln_f";
  row.traits = {.family = Family::llama,
                .parallel_residual = true,
                .one_norm = true,
                .biases = false,
                .attention_bias = false,
                .attention_out_bias = false};
  row.config = ConfigFile{
      .classes = {"FalconForCausalLM", "FalconForQuestionAnswering"},
      .sizes = {.kv_heads = "", .ffn = "ffn_hidden_size"},
      .needs_ffn = false,
      .epsilon = "layer_norm_epsilon",
      .activation = {gelu, "activation"},
      .fixed = {{"alibi", "false", "ALiBi that is added before scores are scaled is not built",
                 true}},
      .keys = {{.key = "bias",
                .flags = {&Model::biases, &Model::attention_bias, &Model::attention_out_bias}},
               {.read = read_falcon, .write = write_falcon}}};
  return row;
}();

constexpr ArchitectureInfo falcon_two_norms = [] {
  ArchitectureInfo row = falcon;
  row.norms.attention = "ln_attn";
  row.norms.mlp = "ln_mlp";
  row.traits.one_norm = false;
  return row;
}();

}  // namespace meshwright::architectures::families
