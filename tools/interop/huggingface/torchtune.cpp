// Renames the settings of torchtune's recipes (0.7, recipes/configs) to those of accelerate and of
// the Trainer. torchtune trains with FSDP 2, as accelerate does.
#include <algorithm>
#include <vector>

#include "tools/interop/huggingface/renaming.h"

namespace meshwright::interop {

namespace {

constexpr TrainerName of_torchtune[] = {
    {"batch_size", "per_device_train_batch_size"},
    {"tokenizer.max_seq_len", "block_size"},
    {"dataset.max_seq_len", "block_size"},
    {"optimizer.lr", "learning_rate"},
    {"optimizer.weight_decay", "weight_decay"},
    {"optimizer.eps", "adam_epsilon"},
    {"lr_scheduler.num_warmup_steps", "warmup_steps"},
    {"enable_activation_checkpointing", "gradient_checkpointing"},
    {"compile", "torch_compile"},
    {"clip_grad_norm", "max_grad_norm"},
    {"tensor_parallel_dim", "parallelism_config.tp_size"},
    {"context_parallel_dim", "parallelism_config.cp_size"},
    {"data_parallel_replicate_dim", "parallelism_config.dp_replicate_size"},
    {"data_parallel_shard_dim", "parallelism_config.dp_shard_size"},
    {"fsdp_reshard_after_forward", "fsdp_config.fsdp_reshard_after_forward"},
    {"model.lora_rank", "lora_r"},
    {"model.lora_alpha", "lora_alpha"},
    {"model.lora_dropout", "lora_dropout"},
    {"model.use_dora", "use_dora"},
};

// Returns the function of torchtune that builds the model, without its module: "lora_llama3_1_8b".
// Returns an empty string if the file gives none.
std::string builder_in(const Settings& settings) {
  const Setting* found = find_setting(settings, "model._component_");
  if (found == nullptr || !found->value.is_string()) return {};
  const std::string path = found->value;
  return path.substr(path.rfind('.') + 1);
}

// How names of torchtune's builders begin, and how the names of the same models on the Hub begin.
// The first row that matches counts.
constexpr TrainerName families[] = {
    {"llama2_", "llama-2-"},
    {"llama3_1_", "llama-3.1-"},
    {"llama3_2_", "llama-3.2-"},
    {"llama3_3_", "llama-3.3-"},
    {"llama3_", "llama-3-"},
    {"llama4_", "llama-4-"},
    {"code_llama2_", "codellama-"},
    {"gemma2_", "gemma-2-"},
    {"gemma_", "gemma-"},
    {"qwen2_5_", "qwen2.5-"},
    {"qwen2_", "qwen2-"},
    {"qwen3_", "qwen3-"},
    {"mistral_7b", "mistral-7b-v0.1"},
    {"phi3_mini", "phi-3-mini-4k-instruct"},
    {"phi4_14b", "phi-4"},
};

// Returns a model's name on the Hub: "qwen2_5_1_5b_base" is "qwen2.5-1.5b-base". Returns the
// builder's name if its family is unknown.
std::string hub_name_of(std::string builder) {
  for (const TrainerName& family : families)
    if (builder.starts_with(family.other)) {
      builder.replace(0, family.other.size(), family.name);
      for (std::size_t i = family.name.size(); i + 1 < builder.size(); ++i)
        if (builder[i] == '_')
          builder[i] =
              std::isdigit(builder[i - 1]) != 0 && std::isdigit(builder[i + 1]) != 0 ? '.' : '-';
      return builder;
    }
  return builder;
}

// Throws InputError for recipes that train by preferences, rewards, a teacher or with awareness of
// quantization, and for files without an optimizer, which train nothing.
void refuse_other_recipes(const Settings& settings) {
  for (const char* part : {"loss._component_", "kd_loss._component_"}) {
    const Setting* loss = find_setting(settings, part);
    if (loss == nullptr || !loss->value.is_string()) continue;
    const std::string name = loss->value;
    for (const char* kind : {"rlhf", "KL", "grpo", "GRPO"})
      if (name.find(kind) != std::string::npos)
        settings.fail(part,
                      name +
                          ": training by preferences, rewards or a teacher is not built; of "
                          "such a recipe one model's step is a job of its own (docs/job-file.md)");
  }
  if (settings.has("quantizer._component_"))
    settings.fail("quantizer._component_",
                  "training that is aware of quantization is not built; take it out");
  if (!settings.has("optimizer._component_"))
    settings.fail("optimizer._component_",
                  "is missing: a file of torchtune without an optimizer trains nothing");
}

void read_adapters(Settings& settings, std::string_view builder) {
  if (!builder.starts_with("lora_") && !builder.starts_with("qlora_")) return;
  imply_setting(settings, "adapter", builder.starts_with("q") ? "qlora" : "lora",
                "model._component_");
  if (builder.starts_with("q")) {  // torchao's NF4 has quantized scales
    imply_setting(settings, "load_in_4bit", true, "model._component_");
    imply_setting(settings, "bnb_4bit_use_double_quant", true, "model._component_");
  }
  std::vector<std::string> modules;
  if (const Setting* found = find_setting(settings, "model.lora_attn_modules");
      found != nullptr && found->value.is_array())
    for (const json& each : found->value)
      if (each.is_string())
        modules.push_back(each == "output_proj" ? std::string("o_proj") : each.get<std::string>());
  if (is_on(settings, "model.apply_lora_to_mlp"))
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) modules.emplace_back(name);
  if (is_on(settings, "model.apply_lora_to_output"))
    settings.note("model.apply_lora_to_output: the head has no adapter here");
  imply_setting(settings, "lora_target_modules", modules, "model._component_");
  for (const char* name :
       {"model.lora_attn_modules", "model.apply_lora_to_mlp", "model.apply_lora_to_output"})
    settings.remove(name);
}

void read_optimizer(Settings& settings) {
  const Setting* found = find_setting(settings, "optimizer._component_");
  const std::string path = found->value.is_string() ? found->value.get<std::string>() : "";
  const std::string name = path.substr(path.rfind('.') + 1);
  const std::string word = name == "AdamW" || name == "PagedAdamW" || name == "CPUOffloadOptimizer"
                               ? "adamw_torch_fused"
                           : name.ends_with("AdamW8bit") ? "adamw_torch_8bit"
                           : name == "Adafactor"         ? "adafactor"
                                                         : name;
  if (name.starts_with("Paged")) settings.note(path + ": its states stay on the device here");
  imply_setting(settings, "optim", word, "optimizer._component_");
  if (const Setting* betas = find_setting(settings, "optimizer.betas");
      betas != nullptr && betas->value.is_array() && betas->value.size() == 2) {
    const json both = betas->value;
    imply_setting(settings, "adam_beta1", both[0], "optimizer.betas");
    imply_setting(settings, "adam_beta2", both[1], "optimizer.betas");
  }
  const Setting* schedule = find_setting(settings, "lr_scheduler._component_");
  const bool is_cosine = schedule != nullptr && schedule->value.is_string() &&
                         schedule->value.get<std::string>().find("cosine") != std::string::npos;
  imply_setting(settings, "lr_scheduler_type", is_cosine ? "cosine" : "constant",
                schedule != nullptr ? "lr_scheduler._component_" : "optimizer._component_");
}

// Decides whether one device trains or several, with FSDP. Only the command line tells which recipe
// runs, but the names of torchtune's own files tell whether it is one for a single device.
void read_devices(Settings& settings) {
  const std::string place = find_setting(settings, "optimizer._component_")->place;
  if (place.find("single_device") != std::string::npos) {
    imply_setting(settings, "num_processes", 1, "optimizer._component_");
    settings.note("the file's name ends with single_device: one GPU trains");
    return;
  }
  imply_setting(settings, "distributed_type", "FSDP", "optimizer._component_");
  settings.note(
      "taken as a recipe of torchtune for several GPUs, all of one host: --set "
      "cluster.processes_per_host=N says how many, cluster.count=N of how many hosts");
}

}  // namespace

void read_torchtune(Settings& settings) {
  const std::string builder = builder_in(settings);
  if (!settings.has("checkpointer._component_")) return;
  settings.others_are_of_script();
  refuse_other_recipes(settings);
  read_devices(settings);
  read_optimizer(settings);
  read_adapters(settings, builder);
  const std::size_t begin = builder.starts_with("lora_")    ? 5
                            : builder.starts_with("qlora_") ? 6
                                                            : 0;
  imply_setting(settings, "model_name_or_path", hub_name_of(builder.substr(begin)),
                "model._component_");
  if (const Setting* dtype = find_setting(settings, "dtype");
      dtype != nullptr && dtype->value == "bf16") {
    imply_setting(settings, "bf16", true, "dtype");
    imply_setting(settings, "pure_bf16", true, "dtype");
  }
  imply_setting(settings, "output_dir", ".",
                "optimizer._component_");  // so that the Trainer's rules read it
  if (const Setting* clip = find_setting(settings, "clip_grad_norm");
      clip == nullptr || clip->value.is_null())
    imply_setting(settings, "max_grad_norm", 0, "optimizer._component_");
  if (const Setting* shards = find_setting(settings, "data_parallel_shard_dim");
      shards != nullptr && shards->value == -1)
    settings.remove("data_parallel_shard_dim");
  for (const char* part : {"model._component_", "optimizer._component_"}) settings.remove(part);
  for (const TrainerName& row : of_torchtune) rename_setting(settings, row.other, row.name);
}

}  // namespace meshwright::interop
