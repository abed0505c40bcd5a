// MiniMax M2 has Mixtral's experts, chosen by sigmoid scores with biases, and an RMSNorm of all
// queries and of all keys.
#include "models/architectures/families/like_llama.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_minimax_experts(Fields& fields, Model& model) {
  read_chosen_by_bias(fields, "num_local_experts", model);
}

}  // namespace

constexpr ArchitectureInfo minimax_m2 = [] {
  ArchitectureInfo row = with_experts(with_head_norms(like_llama("minimax_m2")), 256, 8);
  row.router = "block_sparse_moe.gate";
  row.router_bias = "block_sparse_moe.e_score_correction_bias";
  row.mlp = {"block_sparse_moe", "block_sparse_moe.experts.*.w1", "block_sparse_moe.experts.*.w3",
             "block_sparse_moe.experts.*.w2"};
  row.traits.query_key_norm = QueryKeyNorm::rows;
  row.traits.sigmoid_scores = row.traits.expert_bias = true;
  row.traits.head_dim = 128;
  row.traits.rotary_base = 5e6;
  row.config = ConfigFile{
      .classes = {.generator = "MiniMaxM2ForCausalLM", .has_classifier = false},
      .needs_kv_heads = true,
      .rotary_width = "rotary_dim",
      .fixed = {{"router_jitter_noise", "0.0", "noise on the router's inputs is not built"},
                {"use_qk_norm", "true", "blocks without norms of queries and keys are not built"},
                {"shared_intermediate_size", "0", "shared experts are not built for it"}},
      .early_keys = {head_dim},
      .keys = {{.read = read_minimax_experts, .write = write_local_experts}}};
  return row;
}();

}  // namespace meshwright::architectures::families
