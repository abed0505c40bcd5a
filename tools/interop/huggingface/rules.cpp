#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/huggingface/renaming.h"
#include "tools/interop/huggingface/trainer.h"

namespace meshwright::interop {

namespace {

// Settings of the Trainer, and of the script that calls it, which trainer_files() may write.
constexpr std::string_view written[] = {
    "output_dir",
    "deepspeed",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "block_size",
    "attn_implementation",
    "max_steps",
    "warmup_steps",
    "lr_scheduler_type",
    "learning_rate",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "optim",
    "seed",
    "full_determinism",
    "gradient_checkpointing",
    "torch_compile",
    "bf16",
    "fp16",
    "tf32",
    "ddp_bucket_cap_mb",
    "torch_dtype",
    "use_peft",
    "lora_r",
    "lora_alpha",
    "lora_dropout",
    "lora_target_modules",
    "load_in_4bit",
    "bnb_4bit_quant_type",
    "bnb_4bit_use_double_quant",
    "accelerator_config.gradient_accumulation_kwargs.sync_each_batch"};

constexpr const char* lengths[] = {"block_size", "max_seq_length", "max_length",
                                   "model_max_length"};

std::string schedule_word(const std::string& type) {
  if (type == "cosine") return "cosine";
  return type == "constant" || type == "constant_with_warmup" ? "constant" : "linear";
}

void read_steps(Settings& from, JobDraft& to) {
  if (const auto steps = from.whole("max_steps"); steps && *steps > 0)
    to.set("training.steps", *steps);
  const auto warmup = from.number("warmup_steps");
  const auto ratio = from.number("warmup_ratio");
  const double steps = to.number("training.steps", 1);
  if (warmup && *warmup >= 1)
    to.set("training.warmup_steps", amount_of(*warmup));
  else if (const double share = ratio.value_or(warmup.value_or(0)); share > 0)
    to.set("training.warmup_steps", amount_of(share * steps));
  const auto type = from.word("lr_scheduler_type");
  if (type && *type != schedule_word(*type) && *type != "constant_with_warmup")
    to.remark("lr_scheduler_type " + *type + ": the rate falls linearly here");
  if (type || has_trainer(from))
    to.set("training.learning_rate_schedule", schedule_word(type.value_or("linear")));
  const auto seed = from.whole("seed");
  if (seed || has_trainer(from)) to.set("training.seed", seed.value_or(42));
  if (const auto exact = from.flag("full_determinism")) to.set("training.deterministic", *exact);
}

}  // namespace

bool is_trainer_setting(std::string_view name) {
  return std::find(std::begin(written), std::end(written), name) != std::end(written);
}

bool has_trainer(const Settings& settings) {
  return settings.has("per_device_train_batch_size") || settings.has("output_dir");
}

std::int64_t replicas_of_draft(const JobDraft& job) {
  const std::int64_t cut =
      product({job.count("parallelism.tensor"), job.count("parallelism.pipeline"),
               job.count("parallelism.context")});
  const std::optional<int> ranks = job.ranks();
  return ranks && *ranks % cut == 0 ? *ranks / cut : 0;
}

Rule trainer_sequence_rule() {
  return {{"training.sequence_length"},
          {lengths[0], lengths[1], lengths[2], lengths[3]},
          [](Settings& from, JobDraft& to) {
            for (const char* name : lengths)
              if (const auto length = from.whole(name)) to.set("training.sequence_length", *length);
          },
          [](const JobValues& from, Settings& to) {
            to.add("block_size", from["training.sequence_length"]);
          },
          "no argument of the Trainer's: block_size of transformers' examples, or max_length of "
          "TRL's"};
}

Rule trainer_steps_rule() {
  return {{"training.steps", "training.warmup_steps", "training.learning_rate_schedule",
           "training.seed", "training.deterministic"},
          {"max_steps", "warmup_steps", "warmup_ratio", "lr_scheduler_type", "seed",
           "full_determinism"},
          read_steps,
          [](const JobValues& from, Settings& to) {
            const Training& t = from.plan.training;
            const json schedule = from["training.learning_rate_schedule"];
            to.add("max_steps", t.steps);
            to.add("warmup_steps", t.warmup_steps);
            to.add("lr_scheduler_type",
                   schedule == "constant" ? json("constant_with_warmup") : schedule);
            to.add("seed", t.seed);
            to.add("full_determinism", t.deterministic);
          }};
}

Rule trainer_attention_rule() {
  return {{"training.attention"},
          {"attn_implementation"},
          [](Settings& from, JobDraft& to) {
            const auto word = from.word(
                "attn_implementation", {"eager", "sdpa", "flash_attention_2", "flash_attention_3"});
            const json precision = to.value("training.precision");
            const bool in_fp32 = precision == "fp32" || precision == "tf32";
            if (word == "eager" || in_fp32)
              to.set("training.attention", "unfused");
            else if (word == "flash_attention_2" || word == "flash_attention_3")
              to.set("training.attention", word->ends_with('2') ? "flash2" : "flash3");
            else if (to.value("training.compiler") == "none" && !to.has("training.attention"))
              to.set("training.attention", "flash2");  // of sdpa before Hopper
          },
          [](const JobValues& from, Settings& to) {
            const json kernel = from["training.attention"];
            to.add("attn_implementation", kernel == "unfused"  ? "eager"
                                          : kernel == "flash2" ? "flash_attention_2"
                                          : kernel == "flash3" ? "flash_attention_3"
                                                               : "sdpa");
          },
          "of the script that calls the Trainer; sdpa is PyTorch's choice: cuDNN's on Hopper and "
          "newer, else FlashAttention"};
}

namespace {

// Sets the optimizer that the Trainer's `optim` names, such as paged_adamw_8bit or lion_32bit.
// AdamW and its variants are the default and set nothing. Paged states stay on the device here.
// Throws InputError for any other optimizer.
void read_optimizer_word(Settings& from, std::string name, JobDraft& to) {
  if (name.starts_with("paged_")) {
    to.remark("optim " + name + ": its states stay on the device here");
    name.erase(0, 6);
  }
  const std::string kind = name.substr(0, name.find('_'));
  if (kind == "adamw" || kind == "adam" || kind == "stable") return;  // stable_adamw
  if (kind != "adafactor" && kind != "lion" && kind != "sgd" && kind != "muon")
    from.fail(
        "optim",
        "'" + name + "' is not built; adamw_torch and its like, adafactor, lion, sgd and muon are");
  to.set("training.optimizer", kind);
}

}  // namespace

void read_trainer_optimizer(Settings& from, JobDraft& to) {
  const bool has_defaults = has_trainer(from);
  const auto name = from.word("optim");
  if (name) read_optimizer_word(from, *name, to);
  if (from.flag("pure_bf16").value_or(false)) to.set("training.master_weights", "none");
  const bool is_pure = to.word("training.master_weights", "fp32") == "none" &&
                       to.word("training.optimizer", "adamw") != "adafactor";
  if (name && name->ends_with("4bit"))
    to.remark("optim " + *name + ": its states are taken in 8 bits");
  if (name && (name->ends_with("8bit") || name->ends_with("4bit")))
    to.set("training.moments_precision", "8bit");
  else if (is_pure)
    to.set("training.moments_precision", "bf16");
  const auto take = [&](const char* key, const char* setting, double usual) {
    const auto value = from.number(setting);
    if (value || has_defaults) to.set(key, value.value_or(usual));
  };
  take("training.learning_rate", "learning_rate", 5e-5);
  take("training.weight_decay", "weight_decay", 0);
  take("training.beta1", "adam_beta1", 0.9);
  take("training.beta2", "adam_beta2", 0.999);
  take("training.epsilon", "adam_epsilon", 1e-8);
  take("training.gradient_clip", "max_grad_norm", 1);
}

void write_trainer_optimizer(const JobValues& from, Settings& to) {
  const Training& t = from.plan.training;
  to.add("optim", t.optimizer == OptimizerKind::adafactor ? "adafactor"
                  : is_in_blocks(t.moments)               ? "adamw_torch_8bit"
                                                          : "adamw_torch_fused");
  to.add("learning_rate", t.learning_rate);
  to.add("weight_decay", t.weight_decay);
  to.add("adam_beta1", t.beta1);
  to.add("adam_beta2", t.beta2);
  to.add("adam_epsilon", t.epsilon);
  to.add("max_grad_norm", t.gradient_clip);
}

void read_trainer_batch(Settings& from, JobDraft& to, std::int64_t data) {
  auto micro = from.count("per_device_train_batch_size");
  const Setting* own = find_setting(from, "train_micro_batch_size_per_gpu");
  const bool is_elsewhere = own != nullptr && own->value != "auto";
  if (!micro && has_trainer(from) && !is_elsewhere && !to.has("training.micro_batch"))
    micro = 8;  // the Trainer's default
  const auto rounds = from.count("gradient_accumulation_steps");
  if (micro) to.set("training.micro_batch", *micro);
  const std::int64_t sequences = micro.value_or(to.count("training.micro_batch", 0));
  if (sequences > 0 && data > 0 && (micro || rounds))
    to.set("training.global_batch", product({sequences, rounds.value_or(1), data}));
  else if (sequences > 0 && micro)
    to.follows_from_ranks("training.global_batch");
}

void write_trainer_batch(const JobValues& from, Settings& to) {
  to.add("per_device_train_batch_size", from.plan.training.micro_batch);
  to.add("gradient_accumulation_steps", from.plan.micro_batches());
}

}  // namespace meshwright::interop
