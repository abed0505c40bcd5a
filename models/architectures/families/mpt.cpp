// MPT and BLOOM add a slope for the distance to the scores (ALiBi).
#include "models/architectures/families/config_keys.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Checks the object in which MPT describes its attention: only the usual values can be built.
void check_mpt_attention(Fields& fields, Model&) {
  if (!is_given(fields, "attn_config")) return;
  Fields attention = fields.object("attn_config");
  const FixedKey fixed[] = {
      {"alibi", "true", "learned positions are not built for MPT"},
      {"alibi_bias_max", "8", "other slopes are not built"},
      {"attn_type", "\"multihead_attention\"", "grouped queries are not built for MPT"},
      {"qk_ln", "false", "norms of queries and keys are not built for MPT"},
      {"prefix_lm", "false", "prefixes that see later tokens are not built"},
      {"clip_qkv", "null", "queries, keys and values that are clipped are not built"},
      {"softmax_scale", "null", "another scale of the scores is not built"}};
  for (const FixedKey& row : fixed) {
    if (!is_given(attention, row.key)) continue;
    const std::string value = attention.raw(row.key).dump();
    if (value != row.value)
      attention.fail(row.key,
                     value + ": " + std::string(row.why) + "; set it to " + std::string(row.value));
  }
}

void write_mpt_attention(const Model&, json& config) {
  config["attn_config"] = {{"alibi", true}, {"attn_type", "multihead_attention"}};
  config["expansion_ratio"] = 4;
}

}  // namespace

constexpr ArchitectureInfo mpt = {
    .name = "mpt",
    .embeddings = {"transformer.wte", "transformer.wte"},
    .attention = {.module = "attn", .out = "attn.out_proj", .qkv = "attn.Wqkv"},
    .mlp = {"ffn", "ffn.gate_proj", "ffn.up_proj", "ffn.down_proj"},
    .norms = {"norm_1", "norm_2", "transformer.norm_f"},
    .block = "transformer.blocks",
    .packing = Packing::concatenated,
    .traits = {.family = Family::mpt,
               .alibi = true,
               .biases = false,
               .norm_bias = false,
               .attention_bias = false,
               .attention_out_bias = false},
    .config = {.classes = {.generator = "MptForCausalLM",
                           .reader = "MptForQuestionAnswering",
                           .has_classifier = false},
               .sizes = {.hidden = "d_model",
                         .layers = "n_layers",
                         .heads = "n_heads",
                         .kv_heads = "",
                         .ffn = "",
                         .positions = "max_seq_len"},
               .needs_ffn = false,
               .epsilon = "layer_norm_epsilon",
               .activation = {gelu, ""},
               .rotary_base = "",
               .fixed = {{"expansion_ratio", "4", "an MLP of another width is not built for MPT"},
                         {"no_bias", "true", "MPT with biases is not built", true},
                         {"logit_scale", "null", "scaled logits are not built for MPT"}},
               .keys = {{.read = check_mpt_attention, .write = write_mpt_attention}}}};

constexpr ArchitectureInfo bloom = {
    .name = "bloom",
    .embeddings = {"transformer.word_embeddings", "transformer.word_embeddings", "", "",
                   "transformer.word_embeddings_layernorm"},
    .attention = {.module = "self_attention",
                  .out = "self_attention.dense",
                  .qkv = "self_attention.query_key_value"},
    .mlp = {"mlp", "mlp.dense_gate", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"},
    .norms = {"input_layernorm", "post_attention_layernorm", "transformer.ln_f"},
    .block = "transformer.h",
    .packing = Packing::per_head,
    .traits = {.family = Family::bloom, .alibi = true, .activation = Activation::gelu_tanh},
    .config = {
        .classes = {"BloomForCausalLM", "BloomForQuestionAnswering"},
        .sizes =
            {.layers = "n_layer", .heads = "n_head", .kv_heads = "", .ffn = "", .positions = ""},
        .needs_ffn = false,
        .epsilon = "layer_norm_epsilon",
        .activation = {gelu, ""},
        .rotary_base = "",
        .fixed = {{"apply_residual_connection_post_layernorm", "false",
                   "residual sums of normalized inputs are not built"}}}};

}  // namespace meshwright::architectures::families
