// Renames the arguments of AWS's examples of FSDP to those of accelerate and of the Trainer. The
// repository is awsome-distributed-training, and the file
// 3.test_cases/pytorch/FSDP/src/model_utils/arguments.py.
#include "tools/interop/huggingface/renaming.h"

namespace meshwright::interop {

namespace {

constexpr TrainerName names_of_aws[] = {
    {"max_context_width", "block_size"},
    {"train_batch_size", "per_device_train_batch_size"},
    {"lr", "learning_rate"},
    {"grad_clip", "max_grad_norm"},
    {"beta1", "adam_beta1"},
    {"beta2", "adam_beta2"},
    {"activation_checkpointing", "gradient_checkpointing"},
};

}  // namespace

void read_aws_fsdp(Settings& settings) {
  if (!settings.has("hidden_width") || !settings.has("num_heads")) return;
  settings.others_are_of_script();
  const Setting* strategy = find_setting(settings, "sharding_strategy");
  const bool is_hybrid = strategy != nullptr && strategy->value == "hybrid";
  const char* const by = strategy != nullptr ? "sharding_strategy" : "hidden_width";
  imply_setting(settings, "distributed_type", "FSDP", by);
  imply_setting(settings, "fsdp_config.fsdp_sharding_strategy",
                is_hybrid ? "HYBRID_SHARD" : "FULL_SHARD", by);
  settings.remove("sharding_strategy");
  imply_setting(settings, "output_dir", ".", "hidden_width");  // for the Trainer's defaults
  // The examples' parser has these defaults.
  imply_setting(settings, "bf16", true, "hidden_width");
  imply_setting(settings, "activation_checkpointing", true, "hidden_width");
  imply_setting(settings, "train_batch_size", 2, "hidden_width");
  imply_setting(settings, "lr", 1e-4, "hidden_width");
  imply_setting(settings, "weight_decay", 0.2, "hidden_width");
  imply_setting(settings, "beta2", 0.95, "hidden_width");
  imply_setting(settings, "lr_scheduler_type", "cosine", "hidden_width");
  if (is_on(settings, "offload_activations"))
    settings.note("offload_activations: saved activations stay on the device here");
  settings.remove("offload_activations");
  for (const TrainerName& row : names_of_aws) rename_setting(settings, row.other, row.name);
}

}  // namespace meshwright::interop
