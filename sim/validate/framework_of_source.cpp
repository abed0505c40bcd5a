#include "sim/validate/framework_of_source.h"

namespace meshwright::sim {

namespace {

struct Repository {
  std::string_view name;
  Framework framework;
  StatesOfSource states = StatesOfSource::full;
};

// Frameworks without a word of their own are the ones that they are built on. A source is that of
// the first row that it names, because a guide to one framework may be in another's repository.
// NeMo AutoModel has no row: it runs Transformer Engine's kernels under PyTorch's FSDP.
constexpr Repository repositories[] = {
    {"Pai-Megatron-Patch", Framework::megatron_lm},
    {"Megatron-DeepSpeed", Framework::megatron_lm},
    {"NVIDIA-NeMo/Megatron-Bridge", Framework::megatron_bridge},
    {"NVIDIA/dgxc-benchmarking", Framework::megatron_bridge},
    {"NVIDIA/NeMo", Framework::megatron_bridge},
    {"llama2_70b_lora", Framework::megatron_bridge},  // MLPerf's, by NVIDIA
    {"NVIDIA/Megatron-LM", Framework::megatron_lm},
    {"pytorch/torchtitan", Framework::torchtitan},
    {"pytorch/ao", Framework::torchtitan},
    {"pytorch/torchtune", Framework::pytorch, StatesOfSource::in_16_bits},
    {"foundation-model-stack/fms-acceleration", Framework::transformers,
     StatesOfSource::in_16_bits_if_assumed},
    {"foundation-model-stack/fms-fsdp", Framework::pytorch},
    {"QwenLM/", Framework::transformers, StatesOfSource::in_16_bits},  // peft before release 0.12
    {"huggingface/", Framework::transformers},
    {"hiyouga/LlamaFactory", Framework::transformers},
    {"axolotl", Framework::transformers},
    {"InternLM/InternEvo", Framework::pytorch},
    {"InternLM/xtuner", Framework::pytorch},
    {"deepspeedai/", Framework::deepspeed},
    {"microsoft/DeepSpeed", Framework::deepspeed},
    {"karpathy/nanoGPT", Framework::pytorch},
};

// Returns the first repository that `where` names, or one without a name.
Repository repository_in(std::string_view where) {
  for (const Repository& each : repositories)
    if (where.find(each.name) != std::string_view::npos) return each;
  return {{}, Framework::meshwright};
}

}  // namespace

Framework framework_of_source(std::string_view where) { return repository_in(where).framework; }

StatesOfSource states_of_source(std::string_view where) { return repository_in(where).states; }

}  // namespace meshwright::sim
