#include "sim/validate/framework_of_source.h"

namespace meshwright::sim {

namespace {

struct Repository {
  std::string_view name;
  Framework framework;
  StatesOfSource states = StatesOfSource::full;
};

// A framework without an entry in Framework counts as the one that it is built on. The first row
// that a source names decides, because a guide to one framework may be in another's repository.
// NeMo AutoModel has no row, because it runs Transformer Engine's kernels under PyTorch's FSDP.
constexpr Repository repositories[] = {
    {"Pai-Megatron-Patch", Framework::megatron_lm},
    {"Megatron-DeepSpeed", Framework::megatron_lm},
    {"NVIDIA-NeMo/Megatron-Bridge", Framework::megatron_bridge},
    {"NVIDIA/dgxc-benchmarking", Framework::megatron_bridge},
    {"NVIDIA/NeMo", Framework::megatron_bridge},
    {"llama2_70b_lora", Framework::megatron_bridge},  // a benchmark of MLPerf, as run by NVIDIA
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

// Returns the first row whose repository `where` names, or a row without a name.
Repository repository_in(std::string_view where) {
  for (const Repository& each : repositories)
    if (where.find(each.name) != std::string_view::npos) return each;
  return {{}, Framework::meshwright};
}

}  // namespace

Framework framework_of_source(std::string_view where) { return repository_in(where).framework; }

StatesOfSource states_of_source(std::string_view where) { return repository_in(where).states; }

}  // namespace meshwright::sim
