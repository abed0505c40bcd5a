// GPT 1 and 2, the models of EleutherAI (GPT-Neo, GPT-J and GPT-NeoX), GPT-NeoX Japanese, and
// CodeGen, which is GPT-J.

#include "models/architectures/families/config_keys.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Reads GPT-Neo's windows. Its blocks attend to all earlier tokens (global) or to a window of them
// (local). `attention_types` gives the kinds as [[["global", "local"], times]], and
// `attention_layers` block by block. Only alternating kinds, or global everywhere, can be built.
void read_gpt_neo(Fields& fields, Model& model) {
  std::string_view key = "attention_layers";
  std::vector<std::string> layers;
  if (is_given(fields, key)) {
    layers = fields.required<std::vector<std::string>>(key);
  } else if (is_given(fields, key = "attention_types")) {
    const json& rows = fields.raw(key);
    for (const auto& row : rows) {
      if (!rows.is_array() || !row.is_array() || row.size() != 2 || !row[0].is_array() ||
          !row[1].is_number_integer() || row[1] < 0 || row[1] > model.layers)
        fields.fail(key, "must be a list of [[kinds of blocks], times]");
      for (int time = 0; time < row[1]; ++time)
        for (const auto& kind : row[0]) layers.push_back(kind.is_string() ? kind : "?");
    }
  }
  if (layers.empty())
    for (int layer = 0; layer < model.layers; ++layer)
      layers.emplace_back(layer % 2 == 0 ? "global" : "local");
  if (static_cast<int>(layers.size()) != model.layers)
    fields.fail(key, "names " + std::to_string(layers.size()) + " blocks, but the model has " +
                         std::to_string(model.layers) + "; name each");
  const auto is = [&](std::size_t layer, std::string_view kind) { return layers[layer] == kind; };
  bool all_global = true, in_turn = true;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    all_global = all_global && is(layer, "global");
    in_turn = in_turn && is(layer, layer % 2 == 0 ? "global" : "local");
  }
  if (!all_global && !in_turn)
    fields.fail(key,
                "'global' and 'local' in turn, or 'global' everywhere, are built; use one of "
                "them");
  const int window = is_given(fields, "window_size") ? fields.required<int>("window_size") : 256;
  if (window < 1) fields.fail("window_size", std::to_string(window) + " must be 1 or more");
  model.local_window = all_global ? 0 : window;
  model.local_period = 2;
  model.global_place = 0;
}

void write_gpt_neo(const Model& model, json& config) {
  json layers = json::array();
  for (int layer = 0; layer < model.layers; ++layer)
    layers.push_back(model.local_window > 0 && layer % 2 == 1 ? "local" : "global");
  config["attention_layers"] = layers;
  config["attention_types"] = json::array({json::array({layers, 1})});
  if (model.local_window > 0) config["window_size"] = model.local_window;
}

// Reads how many times as wide as the hidden size the MLPs of GPT-NeoX Japanese are.
void read_japanese_ffn(Fields& fields, Model& model) {
  model.ffn = number(fields, "intermediate_multiple_size", 4, 1) * model.hidden;
}

void write_japanese_ffn(const Model& model, json& config) {
  config["intermediate_multiple_size"] = model.ffn / model.hidden;
}

// GPT 1 calls the tanh form "gelu".
constexpr ActivationWord gpt1_words[] = {{"gelu", Activation::gelu_tanh}};

}  // namespace

constexpr ArchitectureInfo gpt2 = {
    .name = "gpt2",
    .embeddings = {"transformer.wte", "transformer.wte", "transformer.wpe"},
    .attention = {.module = "attn", .out = "attn.c_proj", .qkv = "attn.c_attn"},
    .mlp = {"mlp", "mlp.c_gate", "mlp.c_fc", "mlp.c_proj"},
    .norms = {"ln_1", "ln_2", "transformer.ln_f"},
    .block = "transformer.h",
    .packing = Packing::concatenated,
    .weight_in_out = true,
    .traits = {.learned_positions = true, .activation = Activation::gelu_tanh},
    .config = {
        .classes = {"GPT2LMHeadModel", "GPT2ForQuestionAnswering"},
        .sizes = gpt2_sizes,
        .needs_ffn = false,
        .epsilon = "layer_norm_epsilon",
        .activation = {older_gelu, "activation_function"},
        .fixed = {scaled_scores,
                  {"scale_attn_by_inverse_layer_idx", "false", "scaling by layer is not built"},
                  {"add_cross_attention", "false", "cross-attention is not built"}}}};

constexpr ArchitectureInfo gpt_neox = {
    .name = "gpt_neox",
    .embeddings = {"gpt_neox.embed_in", "gpt_neox.embed_in"},
    .attention = {.module = "attention",
                  .out = "attention.dense",
                  .qkv = "attention.query_key_value"},
    .mlp = {"mlp", "mlp.dense_gate", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"},
    .norms = {"input_layernorm", "post_attention_layernorm", "gpt_neox.final_layer_norm"},
    .head = {"embed_out", "embed_out"},
    .block = "gpt_neox.layers",
    .packing = Packing::per_head,
    .rotary_share = 0.25,
    .traits = {.family = Family::gpt_neox, .tied_embeddings = false, .parallel_residual = true},
    .config = {.classes = {"GPTNeoXForCausalLM", "GPTNeoXForQuestionAnswering"},
               .sizes = {.kv_heads = ""},
               .epsilon = "layer_norm_eps",
               .activation = {older_gelu},
               .rotary_base = "rotary_emb_base",
               .rotary_share = "rotary_pct",
               .late_keys = {usual_attention_bias,
                             {.key = "use_parallel_residual",
                              .flags = {&Model::parallel_residual},
                              .usual = true}}}};

// Only norms, and attention's last matrix in the last block, have biases.
constexpr ArchitectureInfo gpt_neox_japanese = [] {
  ArchitectureInfo row = gpt_neox;
  row.name = "gpt_neox_japanese";
  row.embeddings = {"gpt_neox_japanese.embed_in", "gpt_neox_japanese.embed_in"};
  row.norms.final = "gpt_neox_japanese.final_layer_norm";
  row.block = "gpt_neox_japanese.layers";
  row.last_out_bias = "attention.dense_bias";
  row.rotary_share = 1;
  row.traits.tied_embeddings = true;
  row.traits.parallel_residual = row.traits.biases = false;
  row.traits.attention_bias = row.traits.attention_out_bias = false;
  row.config =
      ConfigFile{.classes = {.generator = "GPTNeoXJapaneseForCausalLM", .has_classifier = false},
                 .sizes = {.kv_heads = "", .ffn = ""},
                 .needs_ffn = false,
                 .epsilon = "layer_norm_eps",
                 .activation = {older_gelu},
                 .rotary_base = "rotary_emb_base",
                 .rotary_share = "rotary_pct",
                 .fixed = {no_pad_token},
                 .keys = {{.read = read_japanese_ffn, .write = write_japanese_ffn}}};
  return row;
}();

constexpr ArchitectureInfo gpt_neo = {
    .name = "gpt_neo",
    .embeddings = {"transformer.wte", "transformer.wte", "transformer.wpe"},
    .attention = {"attn.attention", "attn.attention.q_proj", "attn.attention.k_proj",
                  "attn.attention.v_proj", "attn.attention.out_proj"},
    .mlp = {"mlp", "mlp.c_gate", "mlp.c_fc", "mlp.c_proj"},
    .norms = {"ln_1", "ln_2", "transformer.ln_f"},
    .block = "transformer.h",
    .scaled_scores = false,
    .traits = {.learned_positions = true,
               .attention_bias = false,
               .activation = Activation::gelu_tanh},
    .config = {.classes = {"GPTNeoForCausalLM", "GPTNeoForQuestionAnswering"},
               .sizes = {.layers = "num_layers", .heads = "num_heads", .kv_heads = ""},
               .needs_ffn = false,
               .epsilon = "layer_norm_epsilon",
               .activation = {older_gelu, "activation_function"},
               .late_keys = {{.read = read_gpt_neo, .write = write_gpt_neo}}}};

constexpr ArchitectureInfo gptj = {
    .name = "gptj",
    .embeddings = {"transformer.wte", "transformer.wte"},
    .attention = {"attn", "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj"},
    .mlp = {"mlp", "mlp.fc_gate", "mlp.fc_in", "mlp.fc_out"},
    .norms = {"ln_1", "ln_1", "transformer.ln_f"},
    .head = {"lm_head", "lm_head", "", "", "lm_head.bias"},
    .block = "transformer.h",
    .rotary_share = 0.25,
    .traits = {.family = Family::gptj,
               .tied_embeddings = false,
               .parallel_residual = true,
               .rotary_interleaved = true,
               .attention_bias = false,
               .attention_out_bias = false,
               .activation = Activation::gelu_tanh},
    .config = {.classes = {"GPTJForCausalLM", "GPTJForQuestionAnswering"},
               .sizes = gpt2_sizes,
               .needs_ffn = false,
               .epsilon = "layer_norm_epsilon",
               .activation = {older_gelu, "activation_function"},
               .rotary_base = "",
               .rotary_width = "rotary_dim",
               .fixed = {scaled_scores}}};

constexpr ArchitectureInfo openai_gpt = [] {
  ArchitectureInfo row = gpt2;
  row.name = "openai-gpt";
  row.embeddings = {"transformer.tokens_embed", "transformer.tokens_embed",
                    "transformer.positions_embed"};
  row.norms.final = "";
  row.post_norm = true;
  row.config = ConfigFile{.classes = {"OpenAIGPTLMHeadModel"},
                          .sizes = {.hidden = "n_embd",
                                    .layers = "n_layer",
                                    .heads = "n_head",
                                    .kv_heads = "",
                                    .ffn = "",
                                    .positions = "n_positions"},
                          .needs_ffn = false,
                          .epsilon = "layer_norm_epsilon",
                          .activation = {{gpt1_words, "gelu"}, "afn"}};
  return row;
}();

constexpr ArchitectureInfo codegen = [] {
  ArchitectureInfo row = gptj;
  row.name = "codegen";
  row.published_qkv = "attn.qkv_proj";
  row.published_qvk_groups = 4;
  row.config.classes = {.generator = "CodeGenForCausalLM", .has_classifier = false};
  row.config.fixed[0] = {};
  return row;
}();

}  // namespace meshwright::architectures::families
