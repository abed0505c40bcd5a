// Describes Llama 2 and 3, and Mistral, whose parameters have the same names.

#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

// Reads Mistral's window. If the key is absent, it is 4096, the default of transformers.
void read_mistral_window(Fields& fields, Model& model) {
  if (!fields.has("sliding_window")) model.local_window = 4096;
  read_window(fields, model);
}

// Writes a model with a window as Mistral, because transformers' Llama has none.
void write_as_mistral(const Model& model, json& config) {
  if (model.local_window == 0) return;
  const auto llama = config["architectures"][0].get<std::string>();
  config["model_type"] = "mistral";
  config["architectures"] = {"Mistral" + llama.substr(llama.find("For"))};
  config["sliding_window"] = model.local_window;
}

constexpr ConfigFile mistral_config = {.model_type = "mistral",
                                       .needs_kv_heads = true,
                                       .early_keys = {head_dim},
                                       .keys = {{.read = read_mistral_window}}};

}  // namespace

constexpr ArchitectureInfo llama = [] {
  ArchitectureInfo row = like_llama("llama");
  row.config = ConfigFile{.classes = {"LlamaForCausalLM", "LlamaForQuestionAnswering"},
                          .early_keys = {head_dim},
                          .keys = {attention_bias, mlp_bias, {.write = write_as_mistral}}};
  row.other_configs = {&mistral_config, 1};
  return row;
}();

constexpr ArchitectureInfo mixtral = [] {
  ArchitectureInfo row = with_experts(like_llama("mixtral"), 8, 2);
  row.router = "block_sparse_moe.gate";
  row.mlp = {"block_sparse_moe", "block_sparse_moe.experts.*.w1", "block_sparse_moe.experts.*.w3",
             "block_sparse_moe.experts.*.w2"};
  row.traits.norm_epsilon = 1e-5;
  row.traits.router_aux_loss_coef = 0.001;
  row.config = ConfigFile{
      .classes = {"MixtralForCausalLM", "MixtralForQuestionAnswering"},
      .needs_kv_heads = true,
      .fixed = {{"sliding_window", "null", "attention over a sliding window is not built"},
                {"router_jitter_noise", "0.0", "noise on the router's inputs is not built"}},
      .early_keys = {head_dim, local_experts}};
  return row;
}();

}  // namespace meshwright::architectures::families
