// Reads the newer recipes for fine-tuning (`model_type: llm_finetuning_aws`), which train with
// FSDP, and rejects recipes whose training is not known here.
#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/hyperpod/hyperpod.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

constexpr const char *arguments_part = "training_config.training_args.",
                     *fsdp_part = "training_config.training_args.strategy.fsdp_config.",
                     *model_part = "training_config.model_config.",
                     *adapter_part = "training_config.model_config.peft_config.";

std::string of(const char* section, const char* name) { return section + std::string(name); }

void read_adapter(Settings& from, JobDraft& to) {
  if (std::ranges::none_of(from.all(),
                           [](const Setting& each) { return each.name.starts_with(adapter_part); }))
    return;
  const std::string type = from.word(of(adapter_part, "peft_type")).value_or("lora");
  if (type != "lora" || from.flag(of(adapter_part, "use_dora")).value_or(false))
    from.fail(of(adapter_part, "peft_type"),
              "'" + type + "': plain adapters of LoRA are built only");
  const std::int64_t rank = from.count(of(adapter_part, "r")).value_or(8);
  json lora = {{"rank", rank},
               {"alpha", from.number(of(adapter_part, "lora_alpha")).value_or(rank)},
               {"dropout", from.number(of(adapter_part, "lora_dropout")).value_or(0)}};
  std::vector<std::string> modules = from.words(of(adapter_part, "target_modules"));
  if (modules == std::vector<std::string>{"all-linear"})
    modules = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  if (modules.empty()) to.ask("training.lora.target_modules", "the recipe leaves them to peft");
  lora["target_modules"] = modules;
  from.word(of(adapter_part, "bias"), {"none"});
  from.word(of(adapter_part, "task_type"));
  to.set("training.lora", std::move(lora));
}

void read_sharding(Settings& from, JobDraft& to) {
  const std::string word =
      from.word(of(fsdp_part, "sharding_strategy"),
                {"FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2", "NO_SHARD"})
          .value_or("FULL_SHARD");
  const std::int64_t ring = from.count(of(arguments_part, "ring_attn_size")).value_or(1);
  from.whole(of(arguments_part, "ring_head_stride"));
  to.set("parallelism.tensor", 1);
  to.set("parallelism.context", ring);
  if (ring > 1) to.set("parallelism.context_exchange", "p2p");
  to.set("parallelism.zero_stage", word == "NO_SHARD" ? 0 : 3);
  if (word == "SHARD_GRAD_OP" || word == "_HYBRID_SHARD_ZERO2")
    to.set("parallelism.reshard_after_forward", "never");
  const std::int64_t hosts = to.count("cluster.count");
  if (const auto ranks = to.ranks(); ranks && hosts > 1 && word.find("HYBRID") != std::string::npos)
    to.set("parallelism.shard", *ranks / hosts);
  if (from.flag(of(fsdp_part, "cpu_offload")).value_or(false))
    to.remark("cpu_offload: parameters and states stay on the device here");
}

void read_steps(Settings& from, JobDraft& to) {
  if (const auto steps = from.count(of(arguments_part, "max_steps")))
    to.set("training.steps", *steps);
  const auto ratio = from.number(of(arguments_part, "lr_warmup_ratio"));
  if (ratio && to.has("training.steps"))
    to.set("training.warmup_steps", amount_of(*ratio * to.number("training.steps", 0)));
  const std::string schedule = from.word(of(arguments_part, "lr_scheduler")).value_or("cosine");
  to.set("training.learning_rate_schedule", schedule.find("cosine") != std::string::npos ? "cosine"
                                            : schedule.find("constant") != std::string::npos
                                                ? "constant"
                                                : "linear");
  const auto copy = [&](const char* key, const char* name) {
    if (const auto value = from.number(of(arguments_part, name))) to.set(key, *value);
  };
  copy("training.learning_rate", "learning_rate");
  copy("training.weight_decay", "weight_decay");
  const bool clips = from.flag(of(arguments_part, "gradient_clipping")).value_or(true);
  copy("training.gradient_clip", "max_norm");
  copy("training.gradient_clip", "gradient_clipping_threshold");
  if (!clips) to.set("training.gradient_clip", 0);
  if (const auto seed = from.whole(of(arguments_part, "seed"))) to.set("training.seed", *seed);
  if (const Setting* betas = from.read(of(arguments_part, "adam_betas"))) {
    if (!betas->value.is_array() || betas->value.size() != 2)
      from.fail(of(arguments_part, "adam_betas"),
                betas->value.dump() + " is not a list of two numbers");
    to.set("training.beta1", betas->value[0]);
    to.set("training.beta2", betas->value[1]);
  }
}

void read_recipe(Settings& from, JobDraft& to) {
  const std::string kind = from.word(of(arguments_part, "trainer_type")).value_or("sft");
  if (kind != "sft" && kind != "cpt" && kind != "pretrain")
    from.fail(of(arguments_part, "trainer_type"),
              "'" + kind + "' trains on preferences; sft and cpt are read");
  take_named_model(from, of(model_part, "model_name_or_path"), to);
  if (const auto length = from.count(of(arguments_part, "max_len")))
    to.set("training.sequence_length", *length);
  if (const auto batch = from.count(of(arguments_part, "train_batch_size")))
    to.set("training.global_batch", *batch);
  if (const auto micro = from.count(of(arguments_part, "micro_train_batch_size")))
    to.set("training.micro_batch", *micro);
  to.set("training.precision", "bf16");
  to.set("training.gradient_reduce_precision", "bf16");
  to.set("training.optimizer", "adamw");
  to.set("training.compiler", "none");
  const bool again = from.flag(of(arguments_part, "gradient_checkpointing")).value_or(false);
  to.set("training.recompute", again ? "full" : "none");
  const std::string attention = from.word(of(model_part, "attn_implementation")).value_or("sdpa");
  if (attention == "eager") to.set("training.attention", "unfused");
  if (attention == "flash_attention_2") to.set("training.attention", "flash2");
  if (attention == "flash_attention_3") to.set("training.attention", "flash3");
  read_sharding(from, to);
  read_adapter(from, to);
  read_steps(from, to);
}

}  // namespace

bool is_fine_tuning_recipe(const Settings& settings) {
  return std::ranges::any_of(settings.all(), [](const Setting& each) {
    return each.name.starts_with("training_config.");
  });
}

Rule fine_tuning_rule() {
  return {
      {"model", "training", "parallelism"},
      {of(model_part, "model_name_or_path"), of(model_part, "attn_implementation"),
       of(arguments_part, "max_len"), of(arguments_part, "train_batch_size"),
       of(arguments_part, "micro_train_batch_size"), of(arguments_part, "gradient_checkpointing"),
       of(arguments_part, "learning_rate"), of(arguments_part, "lr_scheduler"),
       of(arguments_part, "ring_attn_size"), of(arguments_part, "trainer_type"),
       of(fsdp_part, "sharding_strategy"), of(adapter_part, "r"), of(adapter_part, "lora_alpha"),
       of(adapter_part, "target_modules")},
      [](Settings& from, JobDraft& to) {
        if (is_fine_tuning_recipe(from)) read_recipe(from, to);
      },
      nullptr,
      "recipes with `training_config` (llm_finetuning_aws); read only"};
}

// Returns the settings unchanged. Throws InputError if the recipe's training is not known here.
Settings refuse_other_recipes(Settings settings, const JobDraft&) {
  const auto evaluates = std::ranges::find_if(settings.all(), [](const Setting& each) {
    return (each.name.starts_with("evaluation.") || each.name.starts_with("llm_as_judge.")) &&
           !each.value.is_null();
  });
  if (evaluates != settings.all().end() && !settings.has("training_config.model_config."
                                                         "model_name_or_path"))
    throw InputError(settings.where(*evaluates) +
                     "the recipe evaluates a model; give one that trains");
  constexpr std::pair<std::string_view, std::string_view> kinds[] = {
      {"nova", "Nova's models are trained by the service alone, and their sizes are not public"},
      {"mtrl", "reinforcement learning over several turns is not read"},
      {"verl", "reinforcement learning by verl is not read"}};
  for (const Setting& each : settings.all()) {
    if (each.name != "run.model_type" || !each.value.is_string()) continue;
    const std::string type = each.value;
    for (const auto& [part, why] : kinds)
      if (type.find(part) != std::string::npos)
        throw InputError(settings.where(each) + "'" + type + "': " + std::string(why) +
                         "; recipes of llm_finetuning_aws, of NeMo and of the model parallel "
                         "library are read, and a job file written by hand (docs/job-file.md)");
  }
  return settings;
}

}  // namespace meshwright::interop
