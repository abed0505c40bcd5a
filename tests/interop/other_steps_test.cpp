// Tests that settings which change the training in a way that a job cannot express are rejected or
// reported in a note.
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tools/interop/import.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

Imported read_steps(const std::string& text, const std::string& name = "run.yaml",
                    std::vector<std::string> overrides = {"cluster.machine=dgx-h100"}) {
  const TestFolder folder;
  ImportOptions options;
  options.overrides = std::move(overrides);
  return import_settings({folder.file(name, text)}, options, machine_facts);
}

std::string steps_error(const std::string& text, const std::string& name = "run.yaml",
                        std::vector<std::string> overrides = {"cluster.machine=dgx-h100"}) {
  try {
    (void)read_steps(text, name, std::move(overrides));
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

bool text_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool steps_note(const Imported& imported, const std::string& part) {
  return std::ranges::any_of(imported.remarks,
                             [&](const std::string& each) { return text_has(each, part); });
}

constexpr const char* axolotl_base =
    "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 2048\nmicro_batch_size: 1\n"
    "gradient_accumulation_steps: 2\n";
constexpr const char* factory_base =
    "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\nfinetuning_type: full\n"
    "cutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n";

}  // namespace

TEST_CASE("what trains otherwise is refused", "[interop]") {
  CHECK(text_has(
      steps_error(std::string(axolotl_base) + "bf16: true\nadapter: lora\nlora_r: 8\ngptq: true\n"),
      "GPTQ"));
  CHECK(
      text_has(steps_error(std::string(axolotl_base) + "bf16: true\nlisa_n_layers: 4\n"), "LISA"));
  for (const char* name : {"use_galore", "use_apollo", "use_badam", "use_adam_mini"}) {
    CHECK(
        text_has(steps_error(std::string(factory_base) + name + ": true\n"), "such an optimizer"));
    CHECK(steps_error(std::string(factory_base) + name + ": false\n").empty());
  }
  CHECK(text_has(steps_error(std::string(factory_base) + "mixture_of_depths: convert\n"),
                 "all tokens"));
  CHECK(text_has(
      steps_error("deepspeed --num_gpus 1 run_model.py --model facebook/opt-30b --gen-len 32\n",
                  "run.sh"),
      "generates text"));
}

TEST_CASE("what changes the memory or the time of a step is noted", "[interop]") {
  const std::string base = std::string(axolotl_base) + "bf16: true\n";
  const Imported offloaded = read_steps(base + "gradient_checkpointing: offload\n");
  CHECK(offloaded.job["training"]["recompute"] == "full");
  CHECK(steps_note(offloaded, "offload=activations"));
  CHECK(steps_note(read_steps(base + "fsdp_config:\n  fsdp_version: 2\n  offload_params: true\n"),
                   "stay on the device"));
  CHECK_FALSE(
      steps_note(read_steps(base + "fsdp_config:\n  fsdp_version: 2\n  offload_params: false\n"),
                 "stay on the device"));
  CHECK(steps_note(read_steps(base + "unfrozen_parameters:\n  - lm_head.weight\n"), "only these"));
  const Imported narrow = read_steps(base + "optimizer: adamw_torch_4bit\n");
  CHECK(narrow.job["training"]["moments_precision"] == "8bit");
  CHECK(steps_note(narrow, "in 8 bits"));
}

TEST_CASE("frozen weights in 8 bits are planned in 16, with a note", "[interop]") {
  const Imported axolotls = read_steps(
      std::string(axolotl_base) + "bf16: true\nadapter: lora\nlora_r: 8\nload_in_8bit: true\n");
  CHECK_FALSE(axolotls.job["training"]["lora"].contains("base_weights"));
  CHECK(steps_note(axolotls, "not 8"));
  std::string text = factory_base;
  text.replace(text.find("full"), 4, "lora");
  CHECK(steps_note(read_steps(text + "quantization_bit: 8\n"), "not 8"));
}

TEST_CASE("patterns of modules are read as the names that they end with", "[interop]") {
  const json lora = read_steps(std::string(axolotl_base) +
                               "bf16: true\nadapter: lora\nlora_r: 8\nlora_target_modules: "
                               "'model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj'\n")
                        .job["training"]["lora"];
  CHECK(lora["target_modules"] == json{"up_proj", "q_proj"});
}

TEST_CASE("a shard degree that needs more hosts says how many", "[interop]") {
  const std::string text = std::string(axolotl_base) +
                           "bf16: true\ndp_shard_size: 16\nfsdp_config:\n  fsdp_version: 2\n"
                           "  reshard_after_forward: true\n";
  CHECK(text_has(steps_error(text), "--set cluster.count=2"));
  const json job =
      read_steps(text, "run.yaml", {"cluster.machine=dgx-h100", "cluster.count=2"}).job;
  CHECK(job["training"]["global_batch"] == 32);
}

TEST_CASE("precisions of axolotl without a copy in 32 bits are read", "[interop]") {
  CHECK(read_steps(std::string(axolotl_base) + "bf16: false\nfloat16: true\n")
            .job["training"]["precision"] == "fp16");
  CHECK(read_steps(std::string(axolotl_base) + "bfloat16: true\n").job["training"]["precision"] ==
        "bf16");
}

TEST_CASE("adapters of a script of one's own are not lost", "[interop]") {
  const std::string start =
      "torchrun --nproc_per_node 8 finetune.py --model_name_or_path meta-llama/Llama-2-7b-hf "
      "--bf16 True --per_device_train_batch_size 2 --model_max_length 512 --use_lora\n";
  CHECK(text_has(steps_error(start, "run.sh"), "--set training.lora.rank"));
  const Imported given =
      read_steps(start, "run.sh", {"cluster.machine=dgx-h100", "training.lora.rank=64"});
  CHECK(given.job["training"]["lora"]["rank"] == 64);
  CHECK(given.job["training"]["lora"].contains("target_modules"));
}

TEST_CASE("files that do not say how ranks share the model say so", "[interop]") {
  CHECK(steps_note(read_steps(factory_base), "neither FSDP nor DeepSpeed"));
  CHECK_FALSE(steps_note(read_steps(std::string(factory_base) + "fsdp: full_shard\n"), "neither"));
}

TEST_CASE("a batch that follows from the machine is not asked for", "[interop]") {
  const std::string asked = steps_error(factory_base, "run.yaml", {});
  CHECK(text_has(asked, "cluster.machine"));
  CHECK_FALSE(text_has(asked, "global_batch"));
}

TEST_CASE("a batch too small for the machine says how many GPUs would do", "[interop]") {
  const std::vector<std::string> set = {"cluster.machine=dgx-h100", "model=llama-3-8b",
                                        "training.sequence_length=2048"};
  const std::string arguments =
      "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
      "--max-position-embeddings 1024 --micro-batch-size 2 --global-batch-size 4 --bf16 "
      "--vocab-size 50257\n";
  CHECK(text_has(steps_error(arguments, "run.txt", {"cluster.machine=dgx-h100"}),
                 "--set cluster.processes_per_host=2"));
  // DeepSpeed's batches decide it.
  const Imported two = read_steps(R"({"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2,
      "bf16": {"enabled": true}})",
                                  "ds_config.json", set);
  CHECK(two.job["cluster"]["processes_per_host"] == 2);
  CHECK(steps_note(two, "2 processes train"));
}

TEST_CASE("files that sed makes of a template are read", "[interop]") {
  const TestFolder folder;
  folder.file("ds_TEMPLATE.json", R"({"train_batch_size": BATCH, "fp16": {"enabled": true,
      "loss_scale": 0, "initial_scale_power": 11}, "zero_optimization": {"stage": STAGE},
      "curriculum_learning": {"enabled": CL, "curriculum_type": "seqlen"}})");
  const std::string script =
      "GBS=64\nSTAGE=1\nconfig=ds_$GBS.json\n"
      "sed \"s/BATCH/${GBS}/\" ds_TEMPLATE.json | sed \"s/STAGE/${STAGE}/\" | sed 's/CL/true/' \\\n"
      "  > ${config}\n"
      "deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 "
      "--num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 "
      "--micro-batch-size 1 --global-batch-size $GBS --fp16 --vocab-size 50257 --loss-scale 12 "
      "--deepspeed --zero-stage $STAGE --deepspeed_config ${config} --no-pipeline-parallel\n";
  ImportOptions options;
  options.overrides = {"cluster.machine=dgx-h100"};
  const Imported run = import_settings({folder.file("run.sh", script)}, options, machine_facts);
  CHECK(run.job["training"]["loss_scale"]["initial"] == 2048);
  CHECK(steps_note(run, "full length"));
}
