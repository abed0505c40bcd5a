// OPT and BioGPT have learned positions, biases everywhere and an MLP without a gate.
#include <cmath>

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void check_opt_table_width(Fields& fields, Model& model) {
  const int width = number(fields, "word_embed_proj_dim", model.hidden, 1);
  if (width != model.hidden)
    fields.fail("word_embed_proj_dim", std::to_string(width) + " is not hidden_size " +
                                           std::to_string(model.hidden) +
                                           ": tables of another width are not built for OPT");
}

void write_opt_table_width(const Model& model, json& config) {
  config["word_embed_proj_dim"] = model.hidden;
}

void read_embedding_scale(Fields& fields, Model& model) {
  if (flag(fields, "scale_embedding", true))
    model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
}

void write_embedding_scale(const Model& model, json& config) {
  config["scale_embedding"] = model.embedding_scale != 1;
}

constexpr ActivationWord opt_words[] = {gelu_words[0], gelu_words[1], gelu_words[2],
                                        gelu_words[3], gelu_words[4], {"relu", Activation::relu}};

}  // namespace

constexpr ArchitectureInfo opt = [] {
  ArchitectureInfo row = like_llama("opt");
  row.embeddings.unit = row.embeddings.tokens = "model.decoder.embed_tokens";
  row.embeddings.positions = "model.decoder.embed_positions";
  row.block = "model.decoder.layers";
  row.attention.out = "self_attn.out_proj";
  row.mlp = {"mlp", "fc_gate", "fc1", "fc2"};
  row.norms = {"self_attn_layer_norm", "final_layer_norm", "model.decoder.final_layer_norm"};
  row.rotary_share = 0;
  row.traits = {.family = Family::llama,
                .learned_positions = true,
                .activation = Activation::relu,
                .position_offset = 2};
  row.config = ConfigFile{
      .classes = {"OPTForCausalLM", "OPTForQuestionAnswering"},
      .sizes = {.kv_heads = "", .ffn = "ffn_dim"},
      .epsilon = "",
      .activation = {{opt_words, "gelu_pytorch_tanh"}, "activation_function"},
      .fixed = {{"do_layer_norm_before", "true",
                 "norms after the residual sum are not built for OPT", true},
                {"_remove_final_layer_norm", "false", "OPT without its last norm is not built"},
                {"enable_bias", "true", "OPT without biases is not built"},
                {"layer_norm_elementwise_affine", "true", "norms without weights are not built"}},
      .keys = {{.read = check_opt_table_width, .write = write_opt_table_width}}};
  return row;
}();

constexpr ArchitectureInfo biogpt = [] {
  ArchitectureInfo row = opt;
  row.name = "biogpt";
  row.embeddings = {"biogpt.embed_tokens", "biogpt.embed_tokens", "biogpt.embed_positions"};
  row.block = "biogpt.layers";
  row.norms.final = "biogpt.layer_norm";
  row.head.unit = row.head.decoder = "output_projection";
  row.traits.activation = Activation::gelu;
  row.config = ConfigFile{.classes = {.generator = "BioGptForCausalLM", .has_classifier = false},
                          .sizes = {.kv_heads = ""},
                          .epsilon = "",
                          .activation = {{opt_words, "gelu_pytorch_tanh"}},
                          .keys = {{.read = read_embedding_scale, .write = write_embedding_scale}}};
  return row;
}();

}  // namespace meshwright::architectures::families
