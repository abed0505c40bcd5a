// Translates the settings of programs that train by transformers' Trainer (LLaMA-Factory, axolotl,
// alignment-handbook, trl) and the options of `accelerate launch` to those of accelerate's settings
// file and of TrainingArguments.
#include <algorithm>
#include <cctype>

#include "tools/interop/amounts.h"
#include "tools/interop/huggingface/renaming.h"
#include "tools/interop/huggingface/trainer.h"
#include "tools/interop/model_names.h"
#include "tools/interop/other_steps.h"

namespace meshwright::interop {

namespace {

// Names in LLaMA-Factory 0.9 (hparams), trl 0.24 (SFTConfig), and scripts of alignment-handbook.
constexpr TrainerName of_scripts[] = {
    {"cutoff_len", "block_size"},         {"max_source_length", "block_size"},
    {"bert_model", "model_name_or_path"}, {"max_seq_len", "max_seq_length"},
    {"sequence_length", "block_size"},
};

// Names in axolotl 0.13 (utils/schemas).
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

// Translates the Trainer's --fsdp "full_shard auto_wrap". In JSON and YAML its value may be a list.
void read_fsdp_words(Settings& settings) {
  const Setting* found = find_setting(settings, "fsdp");
  if (found == nullptr) return;
  const std::string text =
      found->value.is_string() ? found->value.get<std::string>() : found->value.dump();
  for (const auto& [word, strategy] :
       {std::pair{"full_shard", "FULL_SHARD"}, std::pair{"shard_grad_op", "SHARD_GRAD_OP"},
        std::pair{"no_shard", "NO_SHARD"}, std::pair{"hybrid_shard_zero2", "HYBRID_SHARD_ZERO2"},
        std::pair{"hybrid_shard", "HYBRID_SHARD"}})
    if (text.find(word) != std::string::npos) {
      imply_setting(settings, "fsdp_config.fsdp_sharding_strategy", strategy, "fsdp");
      imply_setting(settings, "distributed_type", "FSDP", "fsdp");
      if (text.find("offload") != std::string::npos)
        settings.note("fsdp offload: states and parameters stay on the device here");
      settings.remove("fsdp");
      return;
    }
}

// Names of transformers' BitsAndBytesConfig for weights in 4 bits.
constexpr const char *in_4_bits = "load_in_4bit", *double_scales = "bnb_4bit_use_double_quant",
                     *type_of_4_bits = "bnb_4bit_quant_type";

void read_axolotl(Settings& settings) {
  if (find_setting(settings, "base_model") == nullptr) return;
  for (const TrainerName& row : of_axolotl) rename_setting(settings, row.other, row.name);
  imply_setting(settings, "output_dir", ".", "model_name_or_path");  // for the Trainer's defaults
  if (is_on(settings, "flash_attention"))
    imply_setting(settings, "attn_implementation", "flash_attention_2", "flash_attention");
  const Setting* bf16 = find_setting(settings, "bf16");
  if (bf16 != nullptr && bf16->value == "full") {
    imply_setting(settings, "pure_bf16", true, "bf16");
    settings.add("bf16", true, find_setting(settings, "pure_bf16")->place);
  } else if (bf16 != nullptr && bf16->value == "auto") {
    settings.note(bf16->place + ": bf16 auto: taken as on, as on every GPU since Ampere");
    settings.add("bf16", true, bf16->place);
  }
  if (is_on(settings, "bf16") && !settings.has("torch_dtype"))
    imply_setting(settings, "torch_dtype", "bfloat16", "bf16");  // axolotl then loads it in bf16
  const bool shards = std::ranges::any_of(settings.all(), [](const Setting& each) {
    return each.name.starts_with("fsdp_config.") && each.name != "fsdp_config.fsdp_version";
  });
  if (shards || settings.has("parallelism_config.dp_shard_size"))
    imply_setting(settings, "distributed_type", "FSDP",
                  settings.has("parallelism_config.dp_shard_size")
                      ? "parallelism_config.dp_shard_size"
                      : "fsdp_config.fsdp_version");
  settings.remove("plugins");
  // The switches bfloat16 and float16 ask for weights and compute in 16 bits without master
  // weights.
  for (const auto& [word, precision] : {std::pair{"bfloat16", "bf16"}, {"float16", "fp16"}})
    if (is_on(settings, word) && !is_on(settings, "bf16") && !is_on(settings, "fp16")) {
      settings.remove(precision);
      imply_setting(settings, precision, true, word);
      settings.note(settings.where(*find_setting(settings, word)) + "taken as " + precision);
    }
  if (const Setting* found = find_setting(settings, "gradient_checkpointing");
      found != nullptr && found->value.is_string() &&
      found->value.get_ref<const std::string&>().starts_with("offload")) {
    const std::string place = found->place;
    imply_setting(settings, "activation_offloading", true, "gradient_checkpointing");
    settings.add("gradient_checkpointing", true, place);
  }
  // The scales of 4-bit weights are quantized unless bnb_config_kwargs turns that off
  // (loaders/model.py).
  rename_setting(settings, "bnb_config_kwargs.bnb_4bit_use_double_quant", double_scales);
  rename_setting(settings, "bnb_config_kwargs.bnb_4bit_quant_type", type_of_4_bits);
  if (is_on(settings, in_4_bits)) imply_setting(settings, double_scales, true, in_4_bits);
}

void read_llama_factory(Settings& settings) {
  if (!settings.has("finetuning_type") && !settings.has("cutoff_len")) return;
  if (!settings.has("finetuning_type") && settings.has("template")) {
    settings.note(settings.where(*find_setting(settings, "cutoff_len")) +
                  "finetuning_type is left out: lora, LLaMA-Factory's default");
    imply_setting(settings, "finetuning_type", "lora", "cutoff_len");
  }
  // It recomputes blocks unless it is told not to (model/model_utils/checkpointing.py).
  imply_setting(settings, "gradient_checkpointing",
                !is_on(settings, "disable_gradient_checkpointing"),
                settings.has("finetuning_type") ? "finetuning_type" : "cutoff_len");
  if (const Setting* word = find_setting(settings, "flash_attn");
      word != nullptr && word->value == "fa2")
    imply_setting(settings, "attn_implementation", "flash_attention_2", "flash_attn");
  if (const Setting* kind = find_setting(settings, "finetuning_type"); kind != nullptr) {
    const bool is_full = kind->value == "full";
    if (kind->value == "lora") {
      rename_setting(settings, "lora_rank", "lora_r");
      rename_setting(settings, "lora_target", "lora_target_modules");
      const Setting* rank = find_setting(settings, "lora_r");
      const json alpha = rank != nullptr && rank->value.is_number_integer()
                             ? json(2 * rank->value.get<std::int64_t>())
                             : json(16);
      imply_setting(settings, "lora_alpha", alpha, "finetuning_type");
      imply_setting(settings, "lora_target_modules", "all-linear", "finetuning_type");
      rename_setting(settings, "finetuning_type", "adapter");
    }
    if (is_full) settings.remove("finetuning_type");
  }
  if (const Setting* bits = find_setting(settings, "quantization_bit");
      bits != nullptr && (bits->value == 4 || bits->value == "4")) {
    if (const Setting* by = find_setting(settings, "quantization_method");
        by != nullptr && by->value != "bnb" && by->value != "bitsandbytes" && by->value != "auto")
      settings.fail("quantization_method",
                    by->value.dump() + ": of weights in 4 bits, those of bitsandbytes are built");
    imply_setting(settings, in_4_bits, true, "quantization_bit");
    settings.remove("quantization_bit");
    rename_setting(settings, "double_quantization", double_scales);
    imply_setting(settings, double_scales, true, in_4_bits);
    rename_setting(settings, "quantization_type", type_of_4_bits);
  }
  if (const Setting* bits = find_setting(settings, "quantization_bit");
      bits != nullptr && (bits->value == 8 || bits->value == "8")) {
    imply_setting(settings, "load_in_8bit", true, "quantization_bit");
    settings.remove("quantization_bit");
  }
  if (is_on(settings, "use_muon")) {
    imply_setting(settings, "optim", "muon", "use_muon");
    settings.remove("use_muon");
  }
  settings.remove("flash_attn");
  if (is_on(settings, "fp8")) {
    settings.remove("bf16");
    imply_setting(settings, "mixed_precision", "fp8", "fp8");
    rename_setting(settings, "fp8_backend", "fp8_config.fp8_backend");
    rename_setting(settings, "fp8_enable_fsdp_float8_all_gather",
                   "fp8_config.enable_fsdp_float8_all_gather");
  }
  settings.remove("fp8");
  if (is_on(settings, "pure_bf16")) imply_setting(settings, "bf16", true, "pure_bf16");
}

bool is_adapter(const json& value) { return value == "lora" || value == "qlora"; }

constexpr const char* other_adapters[] = {"adapter", "finetuning_type", "quantization_bit",
                                          "use_dora", "peft_use_dora"};

// Throws InputError if adapters are asked for and no setting gives their rank. A user's own script
// may have the rank in its code.
void refuse_unsaid_rank(const Settings& settings, const JobDraft& given) {
  if (is_on(settings, "use_lora") && !settings.has("lora_r") && !given.has("training.lora"))
    settings.fail("use_lora",
                  "the rank of its adapters is not said; give --set training.lora.rank=NUMBER");
}

// Throws InputError for adapters of other kinds than LoRA, for weights in 4 bits that are not NF4
// or that have no adapters, and for QLoRA without weights in 4 bits.
void refuse_other_adapters(const Settings& settings) {
  for (const char* name : other_adapters) {
    const Setting* found = find_setting(settings, name);
    if (found == nullptr || is_off(found->value) || is_adapter(found->value)) continue;
    settings.fail(name,
                  found->value.dump() +
                      ": of adapters, plain LoRA is built, on weights that are not quantized or in "
                      "4 bits (nf4); take it out, and give training.lora with --set");
  }
  const Setting* adapter = find_setting(settings, "adapter");
  const bool is_narrow = is_on(settings, in_4_bits);
  const bool adapts =
      is_on(settings, "use_peft") || (adapter != nullptr && is_adapter(adapter->value));
  if (adapter != nullptr && adapter->value == "qlora" && !is_narrow)
    settings.fail("adapter", "qlora is of weights in 4 bits; set load_in_4bit to true");
  if (is_narrow && !adapts)
    settings.fail(in_4_bits,
                  "weights in 4 bits are frozen, and no adapter is asked for; use "
                  "adapter: qlora, or take it out");
  if (const Setting* type = find_setting(settings, type_of_4_bits);
      is_narrow && type != nullptr && type->value != "nf4")
    settings.fail(type_of_4_bits,
                  type->value.dump() + ": of weights in 4 bits, nf4 is built; use nf4");
}

// Returns the words of a program's name: "run", "dpo" and "py" of run_dpo.py.
std::vector<std::string> words_of_program(const Settings& settings) {
  const Setting* program = find_setting(settings, "program");
  if (program == nullptr || !program->value.is_string()) return {};
  std::string name = program->value;
  name.erase(0, name.rfind('/') + 1);
  std::vector<std::string> words = {""};
  for (const char c : name) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

// Refuses programs that train otherwise than on the next token, by their names: their arguments are
// those of one that does.
void refuse_programs(const Settings& settings) {
  constexpr std::string_view by_preferences[] = {
      "dpo",  "dpov", "kto", "orpo", "cpo",  "bco",     "xpo",  "tpo",  "ppo",
      "rloo", "prm",  "gkd", "nash", "rlhf", "rewards", "gspo", "grpo", "reward"};
  constexpr std::string_view by_diffusion[] = {"dreambooth", "diffusion", "controlnet",
                                               "inversion"};
  for (const std::string& word : words_of_program(settings)) {
    if (std::ranges::find(by_preferences, word) != std::end(by_preferences))
      settings.fail("program", word + ": " + not_by_rewards);
    if (std::ranges::find(by_diffusion, word) != std::end(by_diffusion))
      settings.fail("program", word + ": diffusion is not built");
  }
}

// Refuses training on another objective than the next token: it runs other models beside the one
// that is trained, or another loss.
void refuse_other_objectives(const Settings& settings) {
  // axolotl's rl and reward_model, trl's arguments of DPO and its kin. trl's loss_type of training
  // on the next token is nll.
  for (const char* name : {"rl", "reward_model", "process_reward_model", "max_prompt_length",
                           "pref_beta", "loss_type", "ref_model", "reward_funcs", "num_generations",
                           "max_completion_length", "teacher_model_name_or_path", "tpo_alpha"})
    if (const Setting* found = find_setting(settings, name);
        found != nullptr && !is_off(found->value) && found->value != "nll")
      settings.fail(name, not_by_rewards);
  if (const Setting* stage = find_setting(settings, "stage");
      stage != nullptr && stage->value.is_string() && stage->value != "sft" && stage->value != "pt")
    settings.fail("stage", stage->value.dump() + ": " + not_by_rewards);
  refuse_programs(settings);
  for (const char* name : {"instance_data_dir", "validation_prompt", "center_crop"})
    if (settings.has("pretrained_model_name_or_path") && settings.has(name))
      settings.fail(name, "diffusion is not built");
  constexpr std::pair<std::string_view, const char*> sections[] = {
      {"qat.", "training that is aware of quantization is not built; take it out"},
      {"diffusion.", "diffusion is not built; take it out"},
      {"ebft.", "energy-based training is not built; take it out"},
      {"trl.", not_by_rewards},
      {"mos_config.", "is not built; take it out"},
  };
  for (const Setting& each : settings.all())
    for (const auto& [section, why] : sections)
      if (each.name.starts_with(section)) settings.fail(each.name, why);
}

// Replaces names of attention kernels that the rules do not know by flash_attention_2 or
// flash_attention_3, which cost about the same.
void read_attention_word(Settings& settings) {
  const Setting* found = find_setting(settings, "attn_implementation");
  if (found == nullptr || !found->value.is_string()) return;
  const std::string word = found->value, place = found->place;
  const auto has = [&](const char* part) { return word.find(part) != std::string::npos; };
  if (word == "eager" || word == "sdpa" || word.starts_with("flash_attention")) return;
  const char* const taken = has("attn3") || has("attention_3") || has("attn_3")
                                ? "flash_attention_3"
                                : "flash_attention_2";
  if (!has("flash") && word != "flex_attention" && word != "xformers") return;
  if (!has("flash"))
    settings.note(place + ": attn_implementation " + word + ": predicted as " + taken);
  settings.add("attn_implementation", taken, place);
}

// Adds a note if no setting says how ranks share the model. The command line may name accelerate's
// settings file, which then says it, and that file may be missing here.
void note_missing_strategy(Settings& settings) {
  if (settings.has("program") || !settings.has("model_name_or_path")) return;
  const bool is_said = std::ranges::any_of(settings.all(), [](const Setting& each) {
    for (const char* section : {"fsdp", "zero_optimization.", "deepspeed", "accelerate.",
                                "parallelism_config.", "distributed_type", "num_processes"})
      if (each.name.starts_with(section)) return true;
    return false;
  });
  if (!is_said)
    settings.note(
        "neither FSDP nor DeepSpeed is asked for: each GPU keeps the whole model, as with DDP; if "
        "accelerate's settings file says otherwise, give it to --from too");
}

// trl's own scripts have defaults of their own beside the Trainer's (SFTConfig of trl 0.24).
void note_defaults_of_trl(Settings& settings) {
  const std::vector<std::string> words = words_of_program(settings);
  if (std::ranges::find(words, "sft") == words.end() || settings.has("gradient_checkpointing") ||
      settings.has("disable_gradient_checkpointing"))
    return;
  settings.note(
      "gradient_checkpointing is not said: blocks are not recomputed, the Trainer's default; trl's "
      "of today is on, which --set training.recompute=full says");
}

}  // namespace

Settings with_trainer_names(Settings settings, const JobDraft& given) {
  if (settings.has("program") || settings.has("base_model") || settings.has("model_name_or_path"))
    settings.others_are_of_script();
  read_torchtune(settings);
  read_aws_fsdp(settings);
  read_deepspeed_chat(settings);
  read_axolotl(settings);
  read_llama_factory(settings);
  for (const TrainerName& row : of_scripts) rename_setting(settings, row.other, row.name);
  if (!settings.has("zero_optimization.stage"))
    for (const TrainerName& row : of_launcher) rename_setting(settings, row.other, row.name);
  refuse_unsaid_rank(settings, given);
  read_script_adapters(settings);
  rename_setting(settings, "q_lora", in_4_bits);
  read_fsdp_words(settings);
  if (is_on(settings, "accelerate.use-fsdp"))
    imply_setting(settings, "distributed_type", "FSDP", "accelerate.use-fsdp");
  if (is_on(settings, "accelerate.use-deepspeed") || settings.has("deepspeed_config.zero_stage"))
    imply_setting(settings, "distributed_type", "DEEPSPEED",
                  settings.has("accelerate.use-deepspeed") ? "accelerate.use-deepspeed"
                                                           : "deepspeed_config.zero_stage");
  refuse_other_adapters(settings);
  refuse_other_objectives(settings);
  read_attention_word(settings);
  check_other_steps(settings);
  note_missing_strategy(settings);
  note_defaults_of_trl(settings);
  const auto remove_if_off = [&](const char* name) {
    const Setting* found = find_setting(settings, name);
    if (found != nullptr && is_off(found->value)) settings.remove(name);
  };
  for (const char* name : other_adapters) remove_if_off(name);
  remove_if_off(in_4_bits);
  remove_if_off("load_in_8bit");
  return settings;
}

namespace {

// Writes the adapters under trl's names of arguments.
void write_adapter(const program::Lora& lora, Settings& to) {
  to.add("use_peft", true);
  to.add("lora_r", lora.rank);
  to.add("lora_alpha", amount_of(lora.alpha));
  to.add("lora_dropout", lora.dropout);
  const bool all = lora.target_modules == std::vector{std::string(program::all_linear)};
  to.add("lora_target_modules", all ? json(program::all_linear) : json(lora.target_modules));
  if (lora.base_weights == program::BaseWeights::unquantized) return;
  to.add(in_4_bits, true);
  to.add(type_of_4_bits, "nf4");
  to.add(double_scales, lora.double_quantization);
}

}  // namespace

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

namespace {

// Returns the modules that a pattern of peft stands for, if the pattern ends with names:
// "layers.[\\d]+.(mlp|self_attn).(up|q)_proj" stands for up_proj and q_proj. Throws InputError for
// other patterns.
std::vector<std::string> modules_of_pattern(const Settings& from, const std::string& pattern) {
  const std::string name = pattern.substr(pattern.rfind('.') + 1);
  const std::size_t open = name.find('('), close = name.find(')');
  const bool has_choice = open != std::string::npos && close != std::string::npos && open < close;
  const std::string before = has_choice ? name.substr(0, open) : name,
                    after = has_choice ? name.substr(close + 1) : "";
  if ((before + after).find_first_of("()[]\\*+?^$|") != std::string::npos)
    from.fail("lora_target_modules", pattern +
                                         ": such a pattern is not read; give --set "
                                         "training.lora.target_modules=[\"q_proj\",...]");
  if (!has_choice) return {name};
  std::vector<std::string> all;
  std::string choices = name.substr(open + 1, close - open - 1);
  for (std::size_t begin = 0; begin <= choices.size();) {
    const std::size_t end = std::min(choices.find('|', begin), choices.size());
    all.push_back(before + choices.substr(begin, end - begin) + after);
    begin = end + 1;
  }
  return all;
}

}  // namespace

Rule trainer_adapter_rule() {
  return {
      {"training.lora"},
      {"adapter", "use_peft", "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules",
       "lora_all_linear", in_4_bits, double_scales, "use_bnb_nested_quant", type_of_4_bits},
      [](Settings& from, JobDraft& to) {
        const std::string kind = from.word("adapter").value_or("");
        const bool trains = is_adapter(kind) || from.flag("use_peft").value_or(false);
        const std::int64_t rank = from.count("lora_r").value_or(8);
        const double alpha = from.number("lora_alpha").value_or(static_cast<double>(rank));
        const double dropout = from.number("lora_dropout").value_or(0);
        const bool every = from.flag("lora_all_linear").value_or(false);
        const bool is_narrow = from.flag(in_4_bits).value_or(false);
        const bool nested = from.flag("use_bnb_nested_quant").value_or(false);  // trl
        const bool is_double = from.flag(double_scales).value_or(nested);
        from.word(type_of_4_bits);
        std::vector<std::string> modules;
        for (const std::string& word : from.words("lora_target_modules")) {
          if (word.find_first_of("([\\") != std::string::npos) {
            for (std::string& each : modules_of_pattern(from, word))
              modules.push_back(std::move(each));
            continue;
          }
          for (std::size_t begin = 0; begin <= word.size();) {  // "q_proj,v_proj"
            const std::size_t end = std::min(word.find(',', begin), word.size());
            if (end > begin) modules.push_back(word.substr(begin, end - begin));
            begin = end + 1;
          }
        }
        if (!trains) return;
        const bool all = modules.size() == 1 && (modules[0] == "all" || modules[0] == "all-linear");
        if (!all && !every && modules.empty() && !from.has("base_model")) {
          modules = {"q_proj", "v_proj"};
          to.remark(
              "adapters: peft gives models after Llama's one at q_proj and v_proj; another model's "
              "are given with --set training.lora.target_modules");
        }
        json lora = {{"rank", rank}, {"alpha", alpha}, {"dropout", dropout}};
        lora["target_modules"] = all || every ? json("all-linear") : json(modules);
        if (is_narrow) lora["base_weights"] = "nf4";
        if (is_narrow && is_double) lora["double_quantization"] = true;
        to.set("training.lora", std::move(lora));
      },
      [](const JobValues& from, Settings& to) {
        if (from.plan.training.lora) write_adapter(*from.plan.training.lora, to);
      },
      "LoRA and QLoRA of LLaMA-Factory, axolotl and trl; train.py gives them to peft"};
}

}  // namespace meshwright::interop
