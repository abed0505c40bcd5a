// SmolLM 3 is Llama with blocks that have no rotary positions.
#include "models/architectures/families/like_llama.h"

namespace meshwright::architectures::families {

constexpr ArchitectureInfo smollm3 = [] {
  ArchitectureInfo row = like_llama("smollm3");
  row.traits.tied_embeddings = true;
  row.traits.rotary_base = 2e6;
  row.config = ConfigFile{
      .classes = {"SmolLM3ForCausalLM", "SmolLM3ForQuestionAnswering"},
      .needs_kv_heads = true,
      .no_yarn = "beside blocks without rotary positions is not built; use llama3",
      .fixed = {{"use_sliding_window", "false", "windows are not built for it", true},
                no_pad_token},
      .early_keys = {unusual_head_dim},
      .keys = {attention_bias,
               mlp_bias,
               {.read = read_blocks_without_rotary, .write = write_blocks_without_rotary},
               layer_types}};
  return row;
}();

}  // namespace meshwright::architectures::families
