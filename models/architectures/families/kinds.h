// Lists the architectures. Each has a row in a file of this folder. A file has a family of
// architectures that are alike.
#pragma once

#include <cstdint>

namespace meshwright::architectures {

// Has one word for each architecture: an enumerator of Architecture, and its row in the namespace
// families. Messages list the architectures in this order.
// clang-format off
#define MESHWRIGHT_ARCHITECTURES(each) \
  each(gpt2) each(gpt_neox) each(gpt_neo) each(gptj) each(llama) each(mixtral) each(qwen2) \
  each(qwen3) each(qwen3_moe) each(qwen2_moe) each(olmoe) each(granitemoe) each(gpt_oss) \
  each(glm4_moe) each(llama4_text) each(deepseek_v2) each(deepseek_v3) each(starcoder2) \
  each(stablelm) each(opt) each(phi3) each(gemma) each(gemma2) each(gemma3_text) each(olmo2) \
  each(nemotron) each(falcon) each(falcon_two_norms) each(gpt_bigcode) each(cohere) \
  each(internlm2) each(bert) each(roberta) each(distilbert) each(albert) each(bart) each(t5) \
  each(vit) each(mpt) each(bloom) each(helium) each(cwm) each(seed_oss) each(hunyuan_v1_dense) \
  each(arcee) each(jais2) each(granite) each(hyperclovax) each(granite_swa) \
  each(granitemoeshared) each(granitemoe_swa) each(glm) each(glm4) each(smollm3) each(ernie4_5) \
  each(ernie4_5_moe) each(olmo3) each(flex_olmo) each(exaone4) each(exaone_moe) each(cohere2) \
  each(phi) each(vaultgemma) each(openai_gpt) each(codegen) each(biogpt) each(minimax_m2) \
  each(youtu) each(minicpm3) each(dots1) each(hy_v3) each(solar_open) each(mellum) \
  each(ministral3) each(bitnet) each(hunyuan_v1_moe) each(cohere2_moe) each(gpt_neox_japanese) \
  each(axk1) each(aria_text) each(afmoe) each(kolibri1) each(modernbert_decoder) \
  each(flint) each(nanochat) each(olmo)
// clang-format on

#define MESHWRIGHT_ENUMERATOR(name) name,
enum class Architecture : std::uint8_t { MESHWRIGHT_ARCHITECTURES(MESHWRIGHT_ENUMERATOR) };
#undef MESHWRIGHT_ENUMERATOR

struct ArchitectureInfo;
namespace families {
#define MESHWRIGHT_DECLARATION(name) extern const ArchitectureInfo name;
MESHWRIGHT_ARCHITECTURES(MESHWRIGHT_DECLARATION)
#undef MESHWRIGHT_DECLARATION
}  // namespace families

struct ArchitectureRow {
  Architecture architecture;
  const ArchitectureInfo& info;
};
#define MESHWRIGHT_ROW(name) {Architecture::name, families::name},
inline constexpr ArchitectureRow all_architectures[] = {MESHWRIGHT_ARCHITECTURES(MESHWRIGHT_ROW)};
#undef MESHWRIGHT_ROW

}  // namespace meshwright::architectures
