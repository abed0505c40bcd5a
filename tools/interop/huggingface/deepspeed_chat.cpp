// Renames the arguments of DeepSpeed-Chat's first step (DeepSpeedExamples, applications/
// DeepSpeed-Chat/training/step1_supervised_finetuning/main.py) and of programs that take
// DeepSpeed's stage as it does to those of the Trainer and of DeepSpeed's file.
#include <string>

#include "tools/interop/huggingface/renaming.h"

namespace meshwright::interop {

namespace {

constexpr TrainerName names_of_chat[] = {
    {"zero_stage", "zero_optimization.stage"},
    {"num_warmup_steps", "warmup_steps"},
    {"max_seq_len", "max_seq_length"},
};

void refuse_other_steps(const Settings& settings) {
  for (const char* name :
       {"actor_model_name_or_path", "critic_model_name_or_path", "num_padding_at_beginning"})
    if (settings.has(name)) settings.fail(name, not_by_rewards);
}

// Adapters beside frozen weights have the rank --lora_dim, and a factor of 1 (dschat, lora.py).
void read_adapters(Settings& settings) {
  const Setting* rank = find_setting(settings, "lora_dim");
  if (rank == nullptr) return;
  if (rank->value == "0") return settings.remove("lora_dim");
  if (!is_on(settings, "only_optimize_lora")) {
    settings.note(settings.where(*rank) +
                  "without --only_optimize_lora all weights are trained, and are planned; the "
                  "adapters beside them are left out");
    settings.remove("lora_dim");
    return;
  }
  imply_setting(settings, "use_peft", true, "only_optimize_lora");
  imply_setting(settings, "lora_alpha", 1, "lora_dim");
  imply_setting(settings, "lora_target_modules", "all-linear", "lora_dim");
  rename_setting(settings, "lora_dim", "lora_r");
}

}  // namespace

void read_deepspeed_chat(Settings& settings) {
  refuse_other_steps(settings);
  if (!settings.has("zero_stage") || settings.has("zero_optimization.stage")) return;
  settings.others_are_of_script();
  const bool is_chat = settings.has("model_name_or_path") &&
                       (settings.has("data_split") || settings.has("data_path") ||
                        settings.has("lora_dim") || settings.has("enable_tensorboard"));
  const auto usual = [&](const char* name, json value) {
    imply_setting(settings, name, std::move(value), "zero_stage");
  };
  if (const Setting* type = find_setting(settings, "dtype"); type != nullptr || is_chat) {
    const bool is_bf16 = type != nullptr && (type->value == "bf16" || type->value == "bfloat16");
    imply_setting(settings, is_bf16 ? "bf16.enabled" : "fp16.enabled", true,
                  type != nullptr ? "dtype" : "zero_stage");
    settings.remove("dtype");
  }
  for (const char* name : {"offload", "adam_offload", "cpu_offload"}) {
    if (is_on(settings, name))
      imply_setting(settings, "zero_optimization.offload_optimizer.device", "cpu", name);
    settings.remove(name);
  }
  if (is_chat) {
    // Its second step has no arguments of its own but the folder in which its scripts lie.
    const Setting& stage = *find_setting(settings, "zero_stage");
    for (const char* folder : {"step2_dpo", "step2_reward"})
      if (stage.place.find(folder) != std::string::npos)
        settings.fail("zero_stage", std::string("a script of ") + folder + ": " + not_by_rewards);
    // Its defaults, where an argument is left out, and what its code sets.
    read_adapters(settings);
    usual("max_seq_len", 512);
    usual("per_device_train_batch_size", 16);
    usual("learning_rate", 1e-3);
    usual("lr_scheduler_type", "cosine");
    usual("adam_beta2", 0.95);
    usual("seed", 1234);
    usual("fp16.loss_scale_window", 100);
    usual("gradient_clipping", 1.0);
    usual("zero_optimization.overlap_comm", true);
    usual("zero_optimization.stage3_max_live_parameters", 3e7);
    usual("zero_optimization.stage3_param_persistence_threshold", 1e4);
    settings.note(
        "DeepSpeed-Chat: taken for its first step, which trains on the next token; its second step "
        "(rewards, preferences) has the same arguments, and trains on pairs of sequences");
  }
  for (const TrainerName& row : names_of_chat) rename_setting(settings, row.other, row.name);
}

}  // namespace meshwright::interop
