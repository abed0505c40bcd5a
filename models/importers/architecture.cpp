#include "models/importers/architecture.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright {

namespace {

constexpr Architecture architectures[] = {
    {.name = "gpt2",
     .embedding_unit = "transformer.wte",
     .tokens = "transformer.wte",
     .positions = "transformer.wpe",
     .block = "transformer.h",
     .attention = "attn",
     .qkv = "attn.c_attn",
     .attention_out = "attn.c_proj",
     .mlp = "mlp",
     .mlp_gate = "mlp.c_gate",
     .mlp_in = "mlp.c_fc",
     .mlp_out = "mlp.c_proj",
     .attention_norm = "ln_1",
     .mlp_norm = "ln_2",
     .final_norm = "transformer.ln_f",
     .head = "lm_head",
     .head_decoder = "lm_head",
     .packing = Packing::concatenated,
     .weight_in_out = true,
     .traits = {.learned_positions = true, .gelu_tanh = true}},
    {.name = "llama",
     .embedding_unit = "model.embed_tokens",
     .tokens = "model.embed_tokens",
     .block = "model.layers",
     .attention = "self_attn",
     .q = "self_attn.q_proj",
     .k = "self_attn.k_proj",
     .v = "self_attn.v_proj",
     .attention_out = "self_attn.o_proj",
     .mlp = "mlp",
     .mlp_gate = "mlp.gate_proj",
     .mlp_in = "mlp.up_proj",
     .mlp_out = "mlp.down_proj",
     .attention_norm = "input_layernorm",
     .mlp_norm = "post_attention_layernorm",
     .final_norm = "model.norm",
     .head = "lm_head",
     .head_decoder = "lm_head",
     .traits = {.family = Family::llama,
                .tied = false,
                .gated_ffn = true,
                .rms_norm = true,
                .biases = false,
                .attention_bias = false,
                .epsilon = 1e-6,
                .rotary_share = 1}},
    {.name = "bert",
     .embedding_unit = "bert.embeddings",
     .tokens = "bert.embeddings.word_embeddings",
     .positions = "bert.embeddings.position_embeddings",
     .token_types = "bert.embeddings.token_type_embeddings",
     .embedding_norm = "bert.embeddings.LayerNorm",
     .block = "bert.encoder.layer",
     .attention = "attention.self",
     .q = "attention.self.query",
     .k = "attention.self.key",
     .v = "attention.self.value",
     .attention_out = "attention.output.dense",
     .mlp = "intermediate",
     .mlp_gate = "intermediate.gate",
     .mlp_in = "intermediate.dense",
     .mlp_out = "output.dense",
     .attention_norm = "attention.output.LayerNorm",
     .mlp_norm = "output.LayerNorm",
     .head = "cls",
     .head_dense = "cls.predictions.transform.dense",
     .head_norm = "cls.predictions.transform.LayerNorm",
     .head_decoder = "cls.predictions.decoder",
     .head_bias = "cls.predictions.bias",
     .post_norm = true,
     .traits = {.family = Family::bert,
                .head = Head::mlm,
                .learned_positions = true,
                .epsilon = 1e-12,
                .token_types = 2}},
    {.name = "roberta",
     .embedding_unit = "roberta.embeddings",
     .tokens = "roberta.embeddings.word_embeddings",
     .positions = "roberta.embeddings.position_embeddings",
     .token_types = "roberta.embeddings.token_type_embeddings",
     .embedding_norm = "roberta.embeddings.LayerNorm",
     .block = "roberta.encoder.layer",
     .attention = "attention.self",
     .q = "attention.self.query",
     .k = "attention.self.key",
     .v = "attention.self.value",
     .attention_out = "attention.output.dense",
     .mlp = "intermediate",
     .mlp_gate = "intermediate.gate",
     .mlp_in = "intermediate.dense",
     .mlp_out = "output.dense",
     .attention_norm = "attention.output.LayerNorm",
     .mlp_norm = "output.LayerNorm",
     .head = "lm_head",
     .head_dense = "lm_head.dense",
     .head_norm = "lm_head.layer_norm",
     .head_decoder = "lm_head.decoder",
     .head_bias = "lm_head.bias",
     .post_norm = true,
     .traits = {.family = Family::bert,
                .head = Head::mlm,
                .learned_positions = true,
                .epsilon = 1e-12,
                .token_types = 1,
                .position_offset = 2}},
    {.name = "mpt",
     .embedding_unit = "transformer.wte",
     .tokens = "transformer.wte",
     .block = "transformer.blocks",
     .attention = "attn",
     .qkv = "attn.Wqkv",
     .attention_out = "attn.out_proj",
     .mlp = "ffn",
     .mlp_gate = "ffn.gate_proj",
     .mlp_in = "ffn.up_proj",
     .mlp_out = "ffn.down_proj",
     .attention_norm = "norm_1",
     .mlp_norm = "norm_2",
     .final_norm = "transformer.norm_f",
     .head = "lm_head",
     .head_decoder = "lm_head",
     .packing = Packing::concatenated,
     .traits = {.family = Family::mpt, .alibi = true, .biases = false, .attention_bias = false}},
    {.name = "bloom",
     .embedding_unit = "transformer.word_embeddings",
     .tokens = "transformer.word_embeddings",
     .embedding_norm = "transformer.word_embeddings_layernorm",
     .block = "transformer.h",
     .attention = "self_attention",
     .qkv = "self_attention.query_key_value",
     .attention_out = "self_attention.dense",
     .mlp = "mlp",
     .mlp_gate = "mlp.dense_gate",
     .mlp_in = "mlp.dense_h_to_4h",
     .mlp_out = "mlp.dense_4h_to_h",
     .attention_norm = "input_layernorm",
     .mlp_norm = "post_attention_layernorm",
     .final_norm = "transformer.ln_f",
     .head = "lm_head",
     .head_decoder = "lm_head",
     .packing = Packing::per_head,
     .traits = {.family = Family::bloom, .alibi = true, .gelu_tanh = true}},
    {.name = "gptj",
     .embedding_unit = "transformer.wte",
     .tokens = "transformer.wte",
     .block = "transformer.h",
     .attention = "attn",
     .q = "attn.q_proj",
     .k = "attn.k_proj",
     .v = "attn.v_proj",
     .attention_out = "attn.out_proj",
     .mlp = "mlp",
     .mlp_gate = "mlp.fc_gate",
     .mlp_in = "mlp.fc_in",
     .mlp_out = "mlp.fc_out",
     .attention_norm = "ln_1",
     .mlp_norm = "ln_1",
     .final_norm = "transformer.ln_f",
     .head = "lm_head",
     .head_decoder = "lm_head",
     .head_bias = "lm_head.bias",
     .traits = {.family = Family::gptj,
                .tied = false,
                .parallel_residual = true,
                .rotary_interleaved = true,
                .attention_bias = false,
                .gelu_tanh = true,
                .rotary_share = 0.25}},
    {.name = "gpt_neox",
     .embedding_unit = "gpt_neox.embed_in",
     .tokens = "gpt_neox.embed_in",
     .block = "gpt_neox.layers",
     .attention = "attention",
     .qkv = "attention.query_key_value",
     .attention_out = "attention.dense",
     .mlp = "mlp",
     .mlp_gate = "mlp.dense_gate",
     .mlp_in = "mlp.dense_h_to_4h",
     .mlp_out = "mlp.dense_4h_to_h",
     .attention_norm = "input_layernorm",
     .mlp_norm = "post_attention_layernorm",
     .final_norm = "gpt_neox.final_layer_norm",
     .head = "embed_out",
     .head_decoder = "embed_out",
     .packing = Packing::per_head,
     .traits = {.family = Family::gpt_neox,
                .tied = false,
                .parallel_residual = true,
                .rotary_share = 0.25}},
};

constexpr FamilyInfo families[] = {
    {Family::gpt, "gpt", "gpt2"},      {Family::llama, "llama", "llama"},
    {Family::bert, "bert", "bert"},    {Family::mpt, "mpt", "mpt"},
    {Family::bloom, "bloom", "bloom"}, {Family::mixtral, "mixtral", ""},
    {Family::seq2seq, "seq2seq", ""},  {Family::vit, "vit", ""},
};

}  // namespace

const Architecture& architecture(std::string_view name) {
  const auto found = std::ranges::find(architectures, name, &Architecture::name);
  MESHWRIGHT_CHECK(found != std::end(architectures), "an architecture of the table");
  return *found;
}

std::span<const FamilyInfo> family_table() { return families; }

Model model_of(std::string_view name) {
  const Traits& traits = architecture(name).traits;
  Model model;
  model.architecture = name;
  model.family = traits.family;
  model.head = traits.head;
  model.tied_embeddings = traits.tied;
  model.gated_ffn = traits.gated_ffn;
  model.rms_norm = traits.rms_norm;
  model.learned_positions = traits.learned_positions;
  model.parallel_residual = traits.parallel_residual;
  model.alibi = traits.alibi;
  model.rotary_interleaved = traits.rotary_interleaved;
  model.biases = traits.biases;
  model.attention_bias = traits.attention_bias;
  model.gelu_tanh = traits.gelu_tanh;
  model.norm_epsilon = traits.epsilon;
  model.token_types = traits.token_types;
  model.position_offset = traits.position_offset;
  return model;
}

}  // namespace meshwright
