// Writes the files that start transformers' Trainer.
#include "models/architectures/huggingface_config.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/huggingface/trainer.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view about_data = "data and tokenizer; `data` says what train reads here";
constexpr std::string_view about_logs = "logging; `log` says what train writes here";
constexpr std::string_view about_saves =
    "checkpoints of its own; `checkpoint` says when train saves here";
constexpr std::string_view about_shown = "evaluation between steps, which predictions leave out";
constexpr std::string_view about_kernels =
    "a choice among kernels that predictions do not tell apart";

constexpr WithoutMeaning rows[] = {
    {"output_dir", about_saves},
    {"overwrite_output_dir", about_saves},
    {"deepspeed", "the file of settings itself"},
    {"tokenizer_name", about_data},
    {"dataset_*", about_data},
    {"train_file", about_data},
    {"validation_file", about_data},
    {"dataloader_*", about_data},
    {"preprocessing_num_workers", about_data},
    {"group_by_length", about_data},
    {"remove_unused_columns", about_data},
    {"num_train_epochs", "max_steps says how long a job trains; else --set training.steps"},
    {"do_*", about_shown},
    {"eval_*", about_shown},
    {"evaluation_strategy", about_shown},
    {"per_device_eval_batch_size", about_shown},
    {"logging_*", about_logs},
    {"log_*", about_logs},
    {"report_to", about_logs},
    {"run_name", about_logs},
    {"disable_tqdm", about_logs},
    {"save_*", about_saves},
    {"load_best_model_at_end", about_saves},
    {"resume_from_checkpoint", about_saves},
    {"push_to_hub", about_saves},
    {"hub_*", about_saves},
    {"gradient_checkpointing_kwargs*", about_kernels},
    {"torch_compile_*", about_kernels},
    {"ddp_*", "how DDP is set up in detail"},
    {"fsdp*", "accelerate's settings file says it"},
    {"accelerator_config.*", "how batches are handed out"},
    {"local_rank", "how processes meet"},
    {"use_liger_kernel", about_kernels},
    {"micro_batch_size", "per_device_train_batch_size says it"},
    {"flash_attention", about_kernels},
    {"sdp_attention", about_kernels},
    {"xformers_attention", about_kernels},
    {"enable_liger_kernel", about_kernels},
    {"liger_*", about_kernels},
    {"disable_gradient_checkpointing", "gradient_checkpointing says it"},
    {"tokens.*", about_data},
    {"tokenizer.*", about_data},
    {"dataset.*", about_data},
    {"dataset_val.*", about_shown},
    {"collate_fn*", about_data},
    {"checkpointer.*", about_saves},
    {"metric_logger.*", about_logs},
    {"profiler.*", "profiling, which changes no plan"},
    {"loss.*", "the loss of the next token is the only one"},
    {"lr_scheduler.*", "details of a schedule of the learning rate"},
    {"tensor_parallel_plan.*", "tensor ranks cut all matrices of a block here"},
    {"memory_efficient_fsdp_wrap", "blocks are what is gathered and reduced together here"},
    {"experts_implementation", about_kernels},
    {"custom_sharded_layers", "blocks are what is gathered and reduced together here"},
    {"optimizer.fused", about_kernels},
    {"optimizer.foreach", about_kernels},
    {"lr_scheduler_kwargs.*", "details of a schedule of the learning rate"},
    {"dataset_processes", about_data},
    {"stage", "the loss is that of the next token here"},
    {"fp16_full_eval", about_shown},
    {"bf16_full_eval", about_shown},
    {"fp16_opt_level", about_kernels},
    {"fp16_backend", about_kernels},
    {"half_precision_backend", about_kernels},
    {"datasets", about_data},
    {"dataset", about_data},
    {"special_tokens.*", about_data},
    {"wandb_*", about_logs},
    {"trust_remote_code", "code of one's own"},
    {"low_cpu_mem_usage", "how weights are loaded"},
    {"load_in_8bit", "frozen weights have 16 bits here"},
};

// The training script of exports. It trains on random tokens until users put in their own dataset.
constexpr const char* script =
    R"(# Trains config.json with transformers' Trainer: train.py training_args.json. The data are random
# tokens; put your own dataset of input_ids and labels in their place. So are the weights, unless
# model_name_or_path in training_args.json names a checkpoint. With use_peft only adapters are trained.
import sys
from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)


@dataclass
class ScriptArguments:
    block_size: int = 1024
    attn_implementation: str = "sdpa"
    model_name_or_path: str = ""
    torch_dtype: str = "float32"
    use_peft: bool = False
    lora_r: int = 8
    lora_alpha: float = 8
    lora_dropout: float = 0
    lora_target_modules: list[str] = field(default_factory=list)
    load_in_4bit: bool = False
    bnb_4bit_quant_type: str = "nf4"
    bnb_4bit_use_double_quant: bool = False


class RandomTokens(Dataset):
    def __init__(self, sequences, length, vocabulary):
        self.sequences, self.length, self.vocabulary = sequences, length, vocabulary

    def __len__(self):
        return self.sequences

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(self.vocabulary, (self.length,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


def make_model(script, training):
    kind = torch.bfloat16 if training.bf16 else torch.float16 if training.fp16 else torch.float32
    options = {"attn_implementation": script.attn_implementation}
    if script.torch_dtype == "bfloat16":  # gradients and moments then are in bf16 too
        options["dtype"] = torch.bfloat16
    if script.use_peft:  # frozen weights need no fp32
        options["dtype"] = kind
    if script.load_in_4bit:
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type=script.bnb_4bit_quant_type,
            bnb_4bit_use_double_quant=script.bnb_4bit_use_double_quant,
            bnb_4bit_compute_dtype=kind,
            bnb_4bit_quant_storage=kind,
        )
    if script.model_name_or_path:
        model = AutoModelForCausalLM.from_pretrained(script.model_name_or_path, **options)
    elif script.load_in_4bit:
        sys.exit("weights in 4 bits are those of a checkpoint: set model_name_or_path")
    else:
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("."), **options)
    if script.use_peft and training.gradient_checkpointing:
        model.enable_input_require_grads()  # the first block's input has no other gradient
    return with_adapters(model, script) if script.use_peft else model


def with_adapters(model, script):
    from peft import LoraConfig, get_peft_model

    adapters = LoraConfig(
        r=script.lora_r,
        lora_alpha=script.lora_alpha,
        lora_dropout=script.lora_dropout,
        target_modules=script.lora_target_modules,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, adapters)


def main():
    parser = HfArgumentParser((ScriptArguments, TrainingArguments))
    script, training = parser.parse_json_file(sys.argv[1])
    set_seed(training.seed)
    model = make_model(script, training)
    sequences = training.train_batch_size * training.gradient_accumulation_steps
    sequences *= training.world_size * max(1, training.max_steps)
    dataset = RandomTokens(sequences, script.block_size, model.config.vocab_size)
    Trainer(model=model, args=training, train_dataset=dataset).train()


if __name__ == "__main__":
    main()
)";

// Sets dropout to 0 in models for which transformers has another default.
void turn_off_dropout(nlohmann::json& config) {
  const std::string type = config["model_type"];
  if (type == "gpt2" || type == "gptj")
    config["attn_pdrop"] = config["embd_pdrop"] = config["resid_pdrop"] = 0.0;
}

// Returns whether the setting is an argument of the training script above, not of the Trainer.
bool is_of_script(std::string_view name) {
  return name == "block_size" || name == "attn_implementation" || name == "torch_dtype" ||
         name == "use_peft" || name.starts_with("lora_") || name == "load_in_4bit" ||
         name.starts_with("bnb_");
}

}  // namespace

std::vector<WithoutMeaning> with_those_of_trainer(std::span<const WithoutMeaning> own) {
  std::vector<WithoutMeaning> all(own.begin(), own.end());
  all.insert(all.end(), std::begin(rows), std::end(rows));
  return all;
}

std::vector<ExportedFile> trainer_files(const JobValues& job, const Settings& settings) {
  Settings arguments;
  arguments.add("output_dir", "output");
  for (const Setting& each : settings.all())
    if (is_trainer_setting(each.name) && !(job.model.captured && is_of_script(each.name)))
      arguments.add(each.name, each.value);
  std::vector<ExportedFile> files = {{"training_args.json", json_text(arguments)}};
  if (job.model.captured) return files;
  nlohmann::json config = huggingface_config(job.model);
  turn_off_dropout(config);
  files.push_back({"config.json", config.dump(2) + "\n"});
  files.push_back({"train.py", script});
  return files;
}

std::vector<std::string> trainer_warnings(const JobValues& job) {
  if (!job.model.captured) return {};
  return {
      "train.py is your own script: put it beside these files; it is started with "
      "training_args.json, the arguments of transformers' Trainer"};
}

}  // namespace meshwright::interop
