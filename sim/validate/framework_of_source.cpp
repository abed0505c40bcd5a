#include "sim/validate/framework_of_source.h"

namespace meshwright::sim {

namespace {

struct Repository {
  std::string_view name;
  Framework framework;
};

// Frameworks without a word of their own are the ones that they are built on.
constexpr Repository repositories[] = {
    {"NVIDIA-NeMo/Megatron-Bridge", Framework::megatron_bridge},
    {"NVIDIA-NeMo/Automodel", Framework::pytorch},
    {"NVIDIA/dgxc-benchmarking", Framework::megatron_bridge},
    {"NVIDIA/NeMo", Framework::megatron_bridge},
    {"NVIDIA/Megatron-LM", Framework::megatron_lm},
    {"Megatron-DeepSpeed", Framework::megatron_lm},
    {"Pai-Megatron-Patch", Framework::megatron_lm},
    {"llama2_70b_lora", Framework::megatron_bridge},  // MLPerf's, by NVIDIA
    {"pytorch/torchtitan", Framework::torchtitan},
    {"pytorch/ao", Framework::torchtitan},
    {"pytorch/torchtune", Framework::pytorch},
    {"foundation-model-stack/fms-acceleration", Framework::transformers},
    {"foundation-model-stack/fms-fsdp", Framework::pytorch},
    {"QwenLM/", Framework::transformers},
    {"huggingface/", Framework::transformers},
    {"hiyouga/LlamaFactory", Framework::transformers},
    {"axolotl", Framework::transformers},
    {"InternLM/InternEvo", Framework::pytorch},
    {"InternLM/xtuner", Framework::pytorch},
    {"deepspeedai/", Framework::deepspeed},
    {"microsoft/DeepSpeed", Framework::deepspeed},
    {"karpathy/nanoGPT", Framework::pytorch},
    {"KellerJordan/modded-nanogpt", Framework::pytorch},
};

}  // namespace

Framework framework_of_source(std::string_view where) {
  std::size_t first = std::string_view::npos;
  Framework framework = Framework::meshwright;
  for (const Repository& each : repositories)
    if (const std::size_t at = where.find(each.name); at < first) {
      first = at;
      framework = each.framework;
    }
  return framework;
}

}  // namespace meshwright::sim
