#include "tools/interop/megatron/other_kinds.h"

#include <string>
#include <utility>

namespace meshwright::interop {

void refuse_other_kinds(Settings& from) {
  constexpr const char* teacher = "training by a teacher is not built; take it out";
  constexpr const char* optimized =
      "quantization, pruning and distillation are not built; take it out";
  constexpr const char* activation = "is not built; gelu, --swiglu and --squared-relu are";
  constexpr const char* state_space =
      "state-space layers are not built; give a model of attention alone";
  constexpr std::pair<std::string_view, const char*> kinds[] = {
      {"kd", teacher},
      {"mos", teacher},
      {"num-layers-teacher", teacher},
      {"load-teacher", teacher},
      {"modelopt-enabled", optimized},
      {"export-kd-cfg", optimized},
      {"flextron", optimized},
      {"ds-sequence-parallel-fpdt",
       "chunks of sequences that go through the host are not built; take it out"},
      {"random-ltd", "every layer computes all tokens here; take it out"},
      {"retro-add-retriever", "retrieval is not built; take it out"},
      {"heterogeneous-layers-config-path", "layers are equal here; take it out"},
      {"heterogeneous-layers-config-encoded-json", "layers are equal here; take it out"},
      {"hybrid-layer-pattern", state_space},
      {"hybrid-override-pattern", state_space},
      {"hybrid-attention-ratio", state_space},
      {"is-hybrid-model", state_space},
      {"enable-hetero", "all ranks of a job are of one kind here; take it out"},
      {"quick-geglu", activation},
      {"xielu", activation},
      {"xiprelu", activation},
      {"xiprelup", activation},
      {"post-layer-norm", "norms stand before what they feed here; take it out"},
      {"perform-rl-step", "one model's step of reinforcement learning is a job of its own"},
  };
  for (const auto& [name, why] : kinds)
    if (from.has(name) && from.word(name).value_or("") != "false") from.fail(name, why);
  for (const std::string& word : from.words("spec"))
    if (word.find("mamba") != std::string::npos || word.find("hybrid") != std::string::npos)
      from.fail("spec", word + ": " + state_space);
  if (from.word("mlp-type").value_or("standard") != "standard")
    from.fail("mlp-type", "experts beside a dense MLP are not built; use standard");
  if (const auto word = from.word("glu-activation"); word && *word != "swiglu")
    from.fail("glu-activation", "'" + *word + "' " + activation);
}

}  // namespace meshwright::interop
