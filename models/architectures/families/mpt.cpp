// MPT and BLOOM add a slope for the distance to the scores (ALiBi). Only BLOOM has a config.json
// here.
#include "models/architectures/families/config_keys.h"

namespace meshwright::architectures::families {

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
               .attention_out_bias = false}};

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
