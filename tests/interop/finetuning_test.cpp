// Tests the settings of programs for fine-tuning: torchtune, axolotl, LLaMA-Factory and trl.
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/test_folder.h"
#include "tools/interop/import.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json job_of(const std::string& text, const std::string& name) {
  const TestFolder folder;
  ImportOptions options;
  options.overrides = {"cluster.machine=dgx-h100"};
  return import_settings({folder.file(name, text)}, options, machine_facts).job;
}

std::string refusal_of(const std::string& text, const std::string& name) {
  try {
    (void)job_of(text, name);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Returns a recipe in the form of torchtune's recipes/configs.
std::string tune(const std::string& model, const std::string& more = "") {
  return "output_dir: /tmp/run\n"
         "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n"
         "  path: /tmp/tokenizer.model\n  max_seq_len: 2048\n"
         "model:\n  _component_: torchtune.models." +
         model +
         "\ncheckpointer:\n  _component_: torchtune.training.FullModelHFCheckpointer\n"
         "  checkpoint_dir: /tmp/model\n"
         "dataset:\n  _component_: torchtune.datasets.alpaca_cleaned_dataset\n  packed: False\n"
         "seed: null\nshuffle: True\nepochs: 1\nbatch_size: 2\ngradient_accumulation_steps: 8\n"
         "optimizer:\n  _component_: torch.optim.AdamW\n  fused: True\n  lr: 2e-5\n"
         "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\n"
         "clip_grad_norm: null\ncompile: False\ndevice: cuda\ndtype: bf16\n"
         "enable_activation_checkpointing: True\nlog_every_n_steps: 1\n" +
         more;
}

constexpr const char* axolotl =
    "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 2048\nmicro_batch_size: 1\n"
    "gradient_accumulation_steps: 1\nbf16: auto\n";

}  // namespace

TEST_CASE("recipes of torchtune are read", "[interop]") {
  const json full = job_of(tune("llama3_1.llama3_1_8b"), "8B_full.yaml");
  CHECK(full["model"] == "llama-3.1-8b");
  const json& training = full["training"];
  CHECK(training["micro_batch"] == 2);
  CHECK(training["global_batch"] == 2 * 8 * 8);
  CHECK(training["sequence_length"] == 2048);
  CHECK(training["precision"] == "bf16");
  CHECK(training["master_weights"] == "none");  // all of it is in bf16
  CHECK(training["moments_precision"] == "bf16");
  CHECK(training["recompute"] == "full");
  CHECK(training["compiler"] == "none");
  CHECK(training["gradient_clip"] == 0);
  CHECK(training["learning_rate"] == 2e-5);
  CHECK(full["parallelism"]["zero_stage"] == 3);

  const json alone = job_of(tune("qwen2_5.qwen2_5_1_5b_instruct"), "1.5B_full_single_device.yaml");
  CHECK(alone["model"] == "qwen2.5-1.5b");
  CHECK(alone["cluster"]["processes_per_host"] == 1);
  CHECK(alone["training"]["global_batch"] == 16);

  const json cut = job_of(
      tune("llama3_3.llama3_3_70b",
           "tensor_parallel_dim: 4\ndata_parallel_shard_dim: -1\ndata_parallel_replicate_dim: 1\n"),
      "70B_full_multinode.yaml");
  CHECK(cut["model"] == "llama-3.1-70b");
  CHECK(cut["parallelism"]["tensor"] == 4);
  CHECK(cut["training"]["global_batch"] == 2 * 8 * 2);
}

TEST_CASE("adapters of torchtune stand where its recipes put them", "[interop]") {
  std::string text = tune("llama3_1.lora_llama3_1_8b");
  const std::string after = "lora_llama3_1_8b\n";
  text.insert(text.find(after) + after.size(),
              "  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']\n"
              "  apply_lora_to_mlp: True\n  apply_lora_to_output: False\n"
              "  lora_rank: 8\n  lora_alpha: 16\n  lora_dropout: 0.0\n");
  const json lora = job_of(text, "8B_lora.yaml")["training"]["lora"];
  CHECK(lora["rank"] == 8);
  CHECK(lora["alpha"] == 16);
  CHECK(lora["target_modules"] ==
        json{"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"});
}

TEST_CASE("torchtune's QLoRA has frozen weights in NF4", "[interop]") {
  std::string text = tune("llama2.qlora_llama2_7b");
  const std::string after = "qlora_llama2_7b\n";
  text.insert(text.find(after) + after.size(),
              "  lora_attn_modules: ['q_proj', 'v_proj']\n  lora_rank: 8\n  lora_alpha: 16\n");
  const json lora = job_of(text, "7B_qlora_single_device.yaml")["training"]["lora"];
  CHECK(lora["base_weights"] == "nf4");
  CHECK(lora["double_quantization"] == true);
}

TEST_CASE("adapters go to peft and come back", "[interop]") {
  const json whole = {{"rank", 16}, {"alpha", 32}, {"target_modules", "all-linear"}};
  const json dropped = {
      {"rank", 4}, {"alpha", 8}, {"dropout", 0.1}, {"target_modules", {"q_proj"}}};
  const json narrow = {{"rank", 8},
                       {"alpha", 8},
                       {"target_modules", {"q_proj", "v_proj"}},
                       {"base_weights", "nf4"},
                       {"double_quantization", true}};
  for (const Framework framework : {Framework::accelerate, Framework::deepspeed})
    for (const json& lora : {whole, dropped, narrow}) {
      const json job = {
          {"model", "llama-2-7b"},
          {"cluster", {{"machine", "p4d.24xlarge"}}},
          {"training", {{"global_batch", 32}, {"sequence_length", 2048}, {"lora", lora}}},
          {"parallelism", {{"data", 8}}}};
      const std::string text = exported_text(job, framework, 1, "training_args.json");
      CAPTURE(text);
      const json again =
          import_texts({{"training_args.json", text}},
                       {"model=llama-2-7b", "cluster.machine=p4d.24xlarge"}, framework)
              .job["training"]["lora"];
      for (const auto& [key, value] : lora.items()) CHECK(again[key] == value);
      CHECK(contains(exported_text(job, framework, 1, "train.py"), "get_peft_model"));
    }
}

TEST_CASE("adapters without names stand where each program puts them", "[interop]") {
  const std::string trainer =
      "model_name_or_path: meta-llama/Llama-2-7b-hf\nper_device_train_batch_size: 1\n"
      "gradient_accumulation_steps: 1\nmax_seq_length: 2048\nbf16: true\n";
  const auto modules = [&](const std::string& more) {
    return job_of(trainer + more, "run.yaml")["training"]["lora"]["target_modules"];
  };
  CHECK(modules("finetuning_type: lora\n") == "all-linear");  // LLaMA-Factory
  CHECK(modules("finetuning_type: lora\nlora_target: all\n") == "all-linear");
  CHECK(modules("finetuning_type: lora\nlora_target: q_proj,o_proj\n") == json{"q_proj", "o_proj"});
  CHECK(modules("use_peft: true\n") == json{"q_proj", "v_proj"});  // peft, of Llama
}

TEST_CASE("recipes of torchtune of other kinds are refused by their kind", "[interop]") {
  std::string preferences = tune("llama3_1.llama3_1_8b");
  const std::string loss = "torchtune.modules.loss.LinearCrossEntropyLoss";
  preferences.replace(preferences.find(loss), loss.size(), "torchtune.rlhf.loss.DPOLoss");
  CHECK(contains(refusal_of(preferences, "dpo.yaml"), "preferences"));
  std::string nothing = tune("llama3_1.llama3_1_8b");
  nothing.replace(nothing.find("optimizer:\n  _component_"), 24, "sampler:\n  _component_");
  CHECK(contains(refusal_of(nothing, "generation.yaml"), "trains nothing"));
  CHECK(contains(refusal_of(tune("llama3_1.llama3_1_8b",
                                 "quantizer:\n  _component_: torchtune.training.quantization."
                                 "Int8DynActInt4WeightQATQuantizer\n"),
                            "qat.yaml"),
                 "quantization"));
}

TEST_CASE("training by preferences or rewards is no training on the next token", "[interop]") {
  CHECK(refusal_of(axolotl, "run.yaml").empty());
  for (const char* more : {"rl: dpo\n", "reward_model: true\n", "process_reward_model: true\n",
                           "trl:\n  beta: 0.1\n", "qat:\n  weight_dtype: int4\n"}) {
    INFO(more);
    CHECK(contains(refusal_of(std::string(axolotl) + more, "run.yaml"), "is not built"));
  }
  CHECK(refusal_of(std::string(axolotl) + "rl:\nreward_model: false\n", "run.yaml").empty());
  const std::string factory =
      "model_name_or_path: meta-llama/Llama-2-7b-hf\nfinetuning_type: full\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nbf16: true\n"
      "output_dir: out\nstage: ";
  CHECK(refusal_of(factory + "sft\n", "run.yaml").empty());
  CHECK(refusal_of(factory + "pt\n", "run.yaml").empty());
  for (const char* stage : {"dpo\n", "kto\n", "rm\n", "ppo\n"})
    CHECK(contains(refusal_of(factory + stage, "run.yaml"), "preferences"));
}

TEST_CASE("optimizers and attention are read by the words that the Trainer has", "[interop]") {
  const auto training = [](const std::string& more) {
    return job_of(std::string(axolotl) + more, "run.yaml")["training"];
  };
  CHECK(training("optimizer: paged_adamw_8bit\n")["moments_precision"] == "8bit");
  CHECK(training("optimizer: adamw_bnb_8bit\n")["moments_precision"] == "8bit");
  CHECK(training("optimizer: lion_32bit\n")["optimizer"] == "lion");
  CHECK(training("optimizer: muon\n")["optimizer"] == "muon");
  CHECK(training("optimizer: adafactor\n")["optimizer"] == "adafactor");
  CHECK(contains(refusal_of(std::string(axolotl) + "optimizer: came_pytorch\n", "run.yaml"),
                 "is not built"));
  CHECK(training("attn_implementation: kernels-community/vllm-flash-attn3\n")["attention"] ==
        "flash3");
  CHECK(training("attn_implementation: flex_attention\n")["attention"] == "flash2");
  std::string whole = axolotl;
  whole.replace(whole.find("bf16: auto"), 10, "bf16: full");
  CHECK(job_of(whole, "run.yaml")["training"]["master_weights"] == "none");
}

// A model that is loaded in bf16 has gradients and moments in bf16, unless somebody widens it.
TEST_CASE("the type in which a model is loaded is that of its training states", "[interop]") {
  const std::string trainer =
      "model_name_or_path: meta-llama/Llama-2-7b-hf\nmax_length: 2048\nbf16: true\n"
      "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\noutput_dir: out\n";
  const auto training = [&](const std::string& more) {
    return job_of(trainer + more, "sft.yaml")["training"];
  };
  const json as_loaded = training("torch_dtype: bfloat16\n");
  CHECK(as_loaded["master_weights"] == "none");
  CHECK(as_loaded["moments_precision"] == "bf16");
  CHECK(as_loaded["gradient_reduce_precision"] == "bf16");
  for (const char* widened :
       {"", "torch_dtype: float32\n", "torch_dtype: bfloat16\nuse_peft: true\n",
        "torch_dtype: bfloat16\ndistributed_type: FSDP\n"}) {
    INFO(widened);
    CHECK(training(widened).value("master_weights", "fp32") == "fp32");
  }
  CHECK(training("torch_dtype: bfloat16\noptim: adafactor\n")["master_weights"] == "none");
}

// Examples are started in the root folder of their repository, so their paths are relative to it.
TEST_CASE("a named file is found from a folder above, too", "[interop]") {
  const TestFolder folder;
  std::filesystem::create_directories(folder.file("ds"));
  std::filesystem::create_directories(folder.file("examples/full"));
  folder.file("ds/zero3.json", R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}})");
  const std::string text =
      "model_name_or_path: meta-llama/Llama-2-7b-hf\nfinetuning_type: full\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nbf16: true\n"
      "output_dir: out\ndeepspeed: ds/zero3.json\n";
  const std::string file = folder.file("examples/full/sft.yaml", text);
  ImportOptions options;
  options.overrides = {"cluster.machine=dgx-h100"};
  CHECK(import_settings({file}, options, machine_facts).job["parallelism"]["zero_stage"] == 3);
}

TEST_CASE("AWS's examples of FSDP are read with the defaults of their parser", "[interop]") {
  const json job = job_of(
      "torchrun --nnodes 4 --nproc_per_node 8 train.py --max_context_width=4096 "
      "--num_key_value_heads=32 --intermediate_size=11008 --hidden_width=4096 --num_layers=32 "
      "--num_heads=32 --model_type=llama_v2 --max_steps=100 --train_batch_size=1 "
      "--sharding_strategy=hybrid --dataset=c4\n",
      "run.sh");
  CHECK(job["cluster"]["count"] == 4);
  CHECK(job["model"]["num_hidden_layers"] == 32);
  CHECK(job["model"]["vocab_size"] == 50432);
  const json& training = job["training"];
  CHECK(training["sequence_length"] == 4096);
  CHECK(training["global_batch"] == 32);
  CHECK(training["precision"] == "bf16");
  CHECK(training["recompute"] == "full");
  CHECK(training["weight_decay"] == 0.2);
  CHECK(job["parallelism"]["zero_stage"] == 3);
  CHECK(job["parallelism"]["shard"] == 8);
}

TEST_CASE("a file of DeepSpeed that axolotl names says the stage", "[interop]") {
  const TestFolder folder;
  folder.file("zero2.json", R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"},
      "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"})");
  ImportOptions options;
  options.overrides = {"cluster.machine=dgx-h100"};
  const std::string file =
      folder.file("run.yaml", std::string(axolotl) + "deepspeed: zero2.json\n");
  const json job = import_settings({file}, options, machine_facts).job;
  CHECK(job["parallelism"]["zero_stage"] == 2);
  CHECK(job["training"]["precision"] == "bf16");
  CHECK(job["training"]["global_batch"] == 8);
}
