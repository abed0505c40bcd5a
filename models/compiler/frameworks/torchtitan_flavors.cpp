// The sizes of torchtitan's llama3 models (0.2.2, torchtitan/models/llama3/__init__.py).
#include <algorithm>

#include "models/compiler/frameworks/torchtitan.h"

namespace meshwright::compiler {

namespace {

struct Flavor {
  std::string_view name;
  int hidden, layers, heads, kv_heads, ffn, vocabulary;
};
constexpr Flavor flavors[] = {
    {"debugmodel", 256, 6, 16, 16, 768, 2048},
    {"8B", 4096, 32, 32, 8, 14336, 128256},
    {"70B", 8192, 80, 64, 8, 28672, 128256},
    {"405B", 16384, 126, 128, 8, 53248, 128256},
};
constexpr double rotary_base = 500000, norm_epsilon = 1e-5;
constexpr int positions = 131072;

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

std::string flavor_of(const Model& m) {
  for (const Flavor& f : flavors)
    if (m.hidden == f.hidden && m.layers == f.layers && m.heads == f.heads &&
        m.kv_heads == f.kv_heads && m.ffn == f.ffn && m.vocabulary == f.vocabulary &&
        m.rotary_base == rotary_base && m.norm_epsilon == norm_epsilon)
      return std::string(f.name);
  return {};
}

json config_of_flavor(std::string_view flavor) {
  std::string wanted = in_lower_case(flavor);
  if (wanted.starts_with("llama3_")) wanted.erase(0, 7);
  for (const std::string_view attention : {"_flex", "_varlen", "_flex_attn", "_varlen_attn"})
    if (wanted.ends_with(attention)) {  // such flavors have the same sizes
      wanted.erase(wanted.size() - attention.size());
      break;
    }
  for (const Flavor& f : flavors) {
    if (in_lower_case(f.name) != wanted) continue;
    return {{"model_type", "llama"},
            {"hidden_act", "silu"},
            {"hidden_size", f.hidden},
            {"num_hidden_layers", f.layers},
            {"num_attention_heads", f.heads},
            {"num_key_value_heads", f.kv_heads},
            {"intermediate_size", f.ffn},
            {"vocab_size", f.vocabulary},
            {"max_position_embeddings", positions},
            {"rms_norm_eps", norm_epsilon},
            {"rope_theta", rotary_base},
            {"tie_word_embeddings", false}};
  }
  return nullptr;
}

}  // namespace meshwright::compiler
