// Renames the settings of programs that train by transformers' Trainer (LLaMA-Factory, axolotl,
// alignment-handbook, trl) and the options of `accelerate launch` to those of accelerate's settings
// file and of TrainingArguments.
#include <algorithm>

#include "tools/interop/huggingface/trainer.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

struct TrainerName {
  std::string_view other, name;
};

// LLaMA-Factory 0.9 (hparams), trl 0.24 (SFTConfig), and scripts of alignment-handbook.
constexpr TrainerName of_scripts[] = {
    {"cutoff_len", "block_size"},
    {"max_source_length", "block_size"},
    {"max_seq_len", "max_seq_length"},
    {"sequence_length", "block_size"},
};

// axolotl 0.13 (utils/schemas).
constexpr TrainerName of_axolotl[] = {
    {"base_model", "model_name_or_path"},
    {"sequence_len", "block_size"},
    {"micro_batch_size", "per_device_train_batch_size"},
    {"optimizer", "optim"},
    {"lr_scheduler", "lr_scheduler_type"},
    {"num_epochs", "num_train_epochs"},
    {"tensor_parallel_size", "parallelism_config.tp_size"},
    {"context_parallel_size", "parallelism_config.cp_size"},
    {"sequence_parallel_degree", "parallelism_config.cp_size"},
    {"dp_shard_size", "parallelism_config.dp_shard_size"},
    {"lora_target_linear", "lora_all_linear"},
    {"dp_replicate_size", "parallelism_config.dp_replicate_size"},
    {"fsdp_version", "fsdp_config.fsdp_version"},
};

// Options of `accelerate launch` (1.12) that its settings file has under other names.
constexpr TrainerName of_launcher[] = {
    {"accelerate.mixed-precision", "mixed_precision"},
    {"accelerate.zero-stage", "deepspeed_config.zero_stage"},
    {"accelerate.deepspeed-config-file", "deepspeed_config.deepspeed_config_file"},
    {"accelerate.offload-optimizer-device", "deepspeed_config.offload_optimizer_device"},
    {"accelerate.offload-param-device", "deepspeed_config.offload_param_device"},
    {"accelerate.gradient-clipping", "deepspeed_config.gradient_clipping"},
    {"accelerate.num-machines", "num_machines"},
    {"accelerate.num-processes", "num_processes"},
    {"accelerate.fsdp-version", "fsdp_config.fsdp_version"},
    {"accelerate.fsdp-sharding-strategy", "fsdp_config.fsdp_sharding_strategy"},
    {"accelerate.fsdp-reshard-after-forward", "fsdp_config.fsdp_reshard_after_forward"},
    {"accelerate.fsdp-offload-params", "fsdp_config.fsdp_offload_params"},
    {"accelerate.fsdp-activation-checkpointing", "fsdp_config.fsdp_activation_checkpointing"},
};

const Setting* find(const Settings& settings, std::string_view name) {
  for (const Setting& each : settings.all())
    if (same_name(each.name, name)) return &each;
  return nullptr;
}

void rename(Settings& settings, std::string_view other, std::string_view name) {
  const Setting* found = find(settings, other);
  if (found == nullptr) return;
  const Setting setting = *found;
  const std::string spelling = settings.spelled(setting.name);
  settings.remove(other);
  if (setting.value.is_null()) return;
  settings.remove(name);
  settings.add(std::string(name), setting.value, setting.place);
  settings.show_as(std::string(name), spelling);
}

// Adds a setting that another one implies, with its place and its spelling.
void imply(Settings& settings, const std::string& name, json value, std::string_view by) {
  const Setting* found = find(settings, by);
  if (found == nullptr || settings.has(name)) return;
  const std::string place = found->place, spelling = settings.spelled(found->name);
  settings.add(name, std::move(value), place);
  settings.show_as(name, spelling);
}

bool is_true(const Settings& settings, std::string_view name) {
  const Setting* found = find(settings, name);
  return found != nullptr && (found->value == true || found->value == "true" ||
                              found->value == "True" || found->value == "1");
}

// The Trainer's --fsdp "full_shard auto_wrap", a list in JSON and YAML.
void read_fsdp_words(Settings& settings) {
  const Setting* found = find(settings, "fsdp");
  if (found == nullptr) return;
  const std::string text =
      found->value.is_string() ? found->value.get<std::string>() : found->value.dump();
  for (const auto& [word, strategy] :
       {std::pair{"full_shard", "FULL_SHARD"}, std::pair{"shard_grad_op", "SHARD_GRAD_OP"},
        std::pair{"no_shard", "NO_SHARD"}, std::pair{"hybrid_shard_zero2", "HYBRID_SHARD_ZERO2"},
        std::pair{"hybrid_shard", "HYBRID_SHARD"}})
    if (text.find(word) != std::string::npos) {
      imply(settings, "fsdp_config.fsdp_sharding_strategy", strategy, "fsdp");
      imply(settings, "distributed_type", "FSDP", "fsdp");
      if (text.find("offload") != std::string::npos)
        settings.note("fsdp offload: states and parameters stay on the device here");
      settings.remove("fsdp");
      return;
    }
}

void read_axolotl(Settings& settings) {
  if (find(settings, "base_model") == nullptr) return;
  for (const TrainerName& row : of_axolotl) rename(settings, row.other, row.name);
  imply(settings, "output_dir", ".", "model_name_or_path");  // the Trainer trains
  if (is_true(settings, "flash_attention"))
    imply(settings, "attn_implementation", "flash_attention_2", "flash_attention");
  if (const Setting* bf16 = find(settings, "bf16"); bf16 != nullptr && bf16->value == "auto") {
    settings.note(bf16->place + ": bf16 auto: taken as on, as on every GPU since Ampere");
    settings.add("bf16", true, bf16->place);
  }
  const bool shards = std::ranges::any_of(settings.all(), [](const Setting& each) {
    return each.name.starts_with("fsdp_config.") && each.name != "fsdp_config.fsdp_version";
  });
  if (shards || settings.has("parallelism_config.dp_shard_size"))
    imply(settings, "distributed_type", "FSDP",
          settings.has("parallelism_config.dp_shard_size") ? "parallelism_config.dp_shard_size"
                                                           : "fsdp_config.fsdp_version");
  settings.remove("plugins");
}

void read_llama_factory(Settings& settings) {
  if (!settings.has("finetuning_type") && !settings.has("cutoff_len")) return;
  // It recomputes blocks unless it is told not to (model/model_utils/checkpointing.py).
  imply(settings, "gradient_checkpointing", !is_true(settings, "disable_gradient_checkpointing"),
        settings.has("finetuning_type") ? "finetuning_type" : "cutoff_len");
  if (const Setting* word = find(settings, "flash_attn"); word != nullptr && word->value == "fa2")
    imply(settings, "attn_implementation", "flash_attention_2", "flash_attn");
  if (const Setting* kind = find(settings, "finetuning_type"); kind != nullptr) {
    const bool is_full = kind->value == "full";
    if (kind->value == "lora") {
      rename(settings, "lora_rank", "lora_r");
      rename(settings, "lora_target", "lora_target_modules");
      const Setting* rank = find(settings, "lora_r");
      const json alpha = rank != nullptr && rank->value.is_number_integer()
                             ? json(2 * rank->value.get<std::int64_t>())
                             : json(16);
      imply(settings, "lora_alpha", alpha, "finetuning_type");
      rename(settings, "finetuning_type", "adapter");
    }
    if (is_full) settings.remove("finetuning_type");
  }
  settings.remove("flash_attn");
  if (is_true(settings, "pure_bf16")) imply(settings, "bf16", true, "pure_bf16");
}

// Returns whether a setting is off: YAML and command lines have several words for it.
bool is_off(const json& value) {
  return value.is_null() || value == false || value == "false" || value == "False" ||
         value == "none" || value == "None" || value == "";
}

// Refuses adapters of other kinds than LoRA, and weights that are not trained in 16 or 32 bits.
void refuse_other_adapters(const Settings& settings) {
  for (const char* name : {"adapter", "finetuning_type", "load_in_4bit", "load_in_8bit",
                           "quantization_bit", "use_dora", "peft_use_dora"}) {
    const Setting* found = find(settings, name);
    if (found == nullptr || is_off(found->value) || found->value == "lora") continue;
    settings.fail(name,
                  found->value.dump() +
                      ": of adapters, plain LoRA is built, on weights that are not quantized; "
                      "take it out, and give training.lora with --set");
  }
}

}  // namespace

Settings with_trainer_names(Settings settings, const JobDraft&) {
  if (settings.has("program") || settings.has("base_model") || settings.has("model_name_or_path"))
    settings.others_are_of_script();
  read_axolotl(settings);
  read_llama_factory(settings);
  for (const TrainerName& row : of_scripts) rename(settings, row.other, row.name);
  if (!settings.has("zero_optimization.stage"))
    for (const TrainerName& row : of_launcher) rename(settings, row.other, row.name);
  read_fsdp_words(settings);
  if (is_true(settings, "accelerate.use-fsdp"))
    imply(settings, "distributed_type", "FSDP", "accelerate.use-fsdp");
  if (is_true(settings, "accelerate.use-deepspeed") || settings.has("deepspeed_config.zero_stage"))
    imply(settings, "distributed_type", "DEEPSPEED",
          settings.has("accelerate.use-deepspeed") ? "accelerate.use-deepspeed"
                                                   : "deepspeed_config.zero_stage");
  refuse_other_adapters(settings);
  return settings;
}

Rule trainer_model_rule() {
  return {{"model"},
          {"model_name_or_path", "config_name"},
          [](Settings& from, JobDraft& to) {
            for (const char* name : {"model_name_or_path", "config_name"})
              if (from.has(name)) take_named_model(from, name, to);
          },
          nullptr,
          "a config.json beside it is taken first; else the zoo's model of that name"};
}

Rule trainer_adapter_rule() {
  return {
      {"training.lora"},
      {"adapter", "use_peft", "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules",
       "lora_all_linear"},
      [](Settings& from, JobDraft& to) {
        const std::string kind = from.word("adapter").value_or("");
        const bool trains = kind == "lora" || from.flag("use_peft").value_or(false);
        const std::int64_t rank = from.count("lora_r").value_or(8);
        const double alpha = from.number("lora_alpha").value_or(static_cast<double>(rank));
        const double dropout = from.number("lora_dropout").value_or(0);
        const bool every = from.flag("lora_all_linear").value_or(false);
        std::vector<std::string> modules;
        for (const std::string& word : from.words("lora_target_modules"))
          for (std::size_t begin = 0; begin <= word.size();) {  // "q_proj,v_proj"
            const std::size_t end = std::min(word.find(',', begin), word.size());
            if (end > begin) modules.push_back(word.substr(begin, end - begin));
            begin = end + 1;
          }
        if (!trains) return;
        const bool all = modules.size() == 1 && (modules[0] == "all" || modules[0] == "all-linear");
        if (every || all || (modules.empty() && !from.has("base_model"))) {
          modules = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
          to.remark(
              "adapters: all matrices of a block as in Llama have one; another model's are "
              "given with --set training.lora.target_modules");
        }
        to.set(
            "training.lora",
            {{"rank", rank}, {"alpha", alpha}, {"dropout", dropout}, {"target_modules", modules}});
      },
      nullptr,
      "LoRA of LLaMA-Factory, axolotl and trl; read only"};
}

}  // namespace meshwright::interop
