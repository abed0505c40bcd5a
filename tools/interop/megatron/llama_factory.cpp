#include "tools/interop/megatron/llama_factory.h"

#include <algorithm>

#include "tools/interop/amounts.h"
#include "tools/interop/huggingface/renaming.h"
#include "tools/interop/huggingface/trainer.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

constexpr TrainerName names_of_megatron[] = {
    {"cutoff_len", "seq-length"},
    {"per_device_train_batch_size", "micro-batch-size"},
    {"learning_rate", "lr"},
    {"lr_scheduler_type", "lr-decay-style"},
    {"max_steps", "train-iters"},
    {"warmup_steps", "lr-warmup-iters"},
    {"warmup_ratio", "lr-warmup-fraction"},
    {"max_grad_norm", "clip-grad"},
};

// Settings of LLaMA-Factory and of the Trainer that change no plan.
constexpr std::string_view of_recipe[] = {"stage",
                                          "do_train",
                                          "output_dir",
                                          "overwrite_output_dir",
                                          "template",
                                          "dataset",
                                          "dataset_dir",
                                          "preprocessing_num_workers",
                                          "logging_steps",
                                          "save_steps",
                                          "num_train_epochs",
                                          "report_to",
                                          "plot_loss",
                                          "overwrite_cache",
                                          "max_samples",
                                          "trust_remote_code",
                                          "run_name",
                                          "save_strategy",
                                          "ddp_timeout",
                                          "image_max_pixels",
                                          "video_max_pixels",
                                          "export_hf_on_finish",
                                          "use_packed_sequences",
                                          "mixed_precision",
                                          "dataloader_num_workers",
                                          "save_only_model",
                                          "val_size",
                                          "eval_strategy",
                                          "eval_steps",
                                          "per_device_eval_batch_size",
                                          "resume_from_checkpoint",
                                          "save_total_limit"};

void read_adapters(Settings& settings) {
  const Setting* kind = find_setting(settings, "finetuning_type");
  if (kind == nullptr) return;
  if (kind->value == "full") return settings.remove("finetuning_type");
  if (kind->value != "lora")
    settings.fail("finetuning_type", kind->value.dump() + ": full and lora are read");
  rename_setting(settings, "lora_rank", "lora_r");
  rename_setting(settings, "lora_target", "lora_target_modules");
  const Setting* rank = find_setting(settings, "lora_r");
  const bool has_rank = rank != nullptr && rank->value.is_number_integer();
  imply_setting(settings, "lora_alpha", has_rank ? 2 * rank->value.get<std::int64_t>() : 16,
                "finetuning_type");
  imply_setting(settings, "lora_target_modules", "all-linear", "finetuning_type");
  rename_setting(settings, "finetuning_type", "adapter");
}

}  // namespace

bool is_llama_factory_on_megatron(const Settings& settings) {
  return settings.has("finetuning_type") && settings.has("model_name_or_path") &&
         (settings.has("tensor_model_parallel_size") ||
          settings.has("pipeline_model_parallel_size"));
}

Settings llama_factory_arguments(const Settings& settings) {
  Settings named = settings;
  if (const Setting* stage = find_setting(named, "stage");
      stage != nullptr && stage->value != "sft" && stage->value != "pt")
    named.fail("stage", stage->value.dump() + ": " + not_by_rewards);
  // An argument of a command line is on where it stands.
  for (const char* name : {"sequence_parallel", "use_distributed_optimizer", "overlap_grad_reduce",
                           "overlap_param_gather", "bf16", "fp16"})
    if (const Setting* found = find_setting(named, name); found != nullptr && is_off(found->value))
      named.remove(name);
  read_adapters(named);
  // The Trainer's defaults.
  const std::pair<const char*, json> usual[] = {{"per_device_train_batch_size", 8},
                                                {"learning_rate", 5e-5},
                                                {"weight_decay", 0},
                                                {"seed", 42}};
  for (const auto& [name, value] : usual) imply_setting(named, name, value, "model_name_or_path");
  for (const TrainerName& row : names_of_megatron) rename_setting(named, row.other, row.name);
  Settings arguments("--");
  for (const Setting& each : named.all()) {
    const bool is_plain = std::ranges::find(of_recipe, each.name) != std::end(of_recipe);
    std::string name = is_plain ? "recipe." + each.name : each.name;
    if (!is_plain) std::ranges::replace(name, '_', '-');
    arguments.add(name, each.value, each.place);
    arguments.show_as(name, named.spelled(each.name));
  }
  return arguments;
}

Rule named_model_rule() {
  return {{"model"},
          {"model-name-or-path"},
          [](Settings& from, JobDraft& to) {
            if (from.has("model-name-or-path")) take_named_model(from, "model-name-or-path", to);
          },
          nullptr,
          "LLaMA-Factory's; the zoo's model of that name"};
}

Rule accumulation_rule() {
  return {{"training.global_batch"},
          {"gradient-accumulation-steps"},
          [](Settings& from, JobDraft& to) {
            if (!from.has("model-name-or-path") || from.has("global-batch-size")) return;
            const std::int64_t rounds = from.count("gradient-accumulation-steps").value_or(1);
            const std::int64_t data = replicas_of_draft(to),
                               micro = to.count("training.micro_batch", 0);
            if (data > 0 && micro > 0)
              to.set("training.global_batch", product({micro, rounds, data}));
            else
              to.follows_from_ranks("training.global_batch");
          },
          nullptr,
          "LLaMA-Factory's"};
}

Rule adapters_rule() {
  Rule rule = trainer_adapter_rule();
  rule.write = nullptr;
  rule.note = "LLaMA-Factory's";
  return rule;
}

}  // namespace meshwright::interop
