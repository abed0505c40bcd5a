// Scripts and files of programs that deepspeed and accelerate start: DeepSpeed-Chat, templates,
// tasks of Megatron-DeepSpeed, LLaMA-Factory on Megatron-Core, and programs of one's own.
#include <map>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tools/interop/import.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

using Texts = std::map<std::string, std::string>;

Imported imported_of(const std::string& name, const std::string& text,
                     std::vector<std::string> more = {}, const Texts& beside = {},
                     const std::map<std::string, std::string>& defines = {}) {
  const TestFolder folder;
  for (const auto& [other, content] : beside) folder.file(other, content);
  ImportOptions options;
  options.overrides = std::move(more);
  options.overrides.emplace_back("cluster.machine=dgx-h100");
  options.defines = defines;
  return import_settings({folder.file(name, text)}, options, machine_facts);
}

std::string refusal_of(const std::string& name, const std::string& text,
                       const std::vector<std::string>& more = {}, const Texts& beside = {},
                       const std::map<std::string, std::string>& defines = {}) {
  try {
    (void)imported_of(name, text, more, beside, defines);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool says(const Imported& imported, const std::string& part) {
  return std::ranges::any_of(imported.remarks,
                             [&](const std::string& each) { return contains(each, part); });
}

std::string chat(const std::string& more) {
  return "#!/bin/bash\nZERO_STAGE=$2\nif [ \"$ZERO_STAGE\" == \"\" ]; then\n  ZERO_STAGE=3\nfi\n"
         "deepspeed --num_gpus 4 main.py --data_split 2,4,4 --model_name_or_path "
         "facebook/opt-1.3b \\\n  --per_device_train_batch_size 8 --gradient_accumulation_steps 2 "
         "\\\n  --learning_rate 1e-4 --zero_stage $ZERO_STAGE --deepspeed " +
         more + " &> out/training.log\n";
}

const std::vector<std::string> small = {"model=llama-2-7b", "training.sequence_length=2048"};

}  // namespace

TEST_CASE("DeepSpeed-Chat's first step is read with its defaults", "[interop]") {
  const Imported imported = imported_of("run.sh", chat("--gradient_checkpointing"));
  const json &job = imported.job, &training = job["training"], &plan = job["parallelism"];
  CHECK(job["model"] == "opt-1.3b");
  CHECK(job["cluster"]["processes_per_host"] == 4);
  CHECK(training["micro_batch"] == 8);
  CHECK(training["global_batch"] == 8 * 2 * 4);
  CHECK(training["sequence_length"] == 512);  // --max_seq_len is left out
  CHECK(training["precision"] == "fp16");     // so is --dtype
  CHECK(training["beta2"] == 0.95);
  CHECK(training["learning_rate"] == 1e-4);
  CHECK(training["learning_rate_schedule"] == "cosine");
  CHECK(training["recompute"] == "full");
  CHECK(training["loss_scale"]["window"] == 100);
  CHECK(plan["zero_stage"] == 3);
  CHECK(plan["max_live_parameters"] == 30000000);
  CHECK(plan["persistence_threshold"] == 10000);
  CHECK_FALSE(training.contains("lora"));
  CHECK(says(imported, "second step"));

  const Imported adapters = imported_of(
      "run.sh", chat("--lora_dim 128 --only_optimize_lora --dtype bf16 --max_seq_len 1024"), {}, {},
      {{"2", "2"}});
  const json& lora = adapters.job["training"]["lora"];
  CHECK(lora["rank"] == 128);
  CHECK(lora["alpha"] == 1.0);
  CHECK(adapters.job["parallelism"]["zero_stage"] == 2);
  CHECK(adapters.job["training"]["precision"] == "bf16");
  CHECK(adapters.job["training"]["sequence_length"] == 1024);

  // All weights are trained beside the adapters then.
  const Imported both = imported_of("run.sh", chat("--lora_dim 128 --offload"));
  CHECK_FALSE(both.job["training"].contains("lora"));
  CHECK(says(both, "--only_optimize_lora"));
  CHECK(says(both, "stay on the device"));
}

TEST_CASE("steps of DeepSpeed-Chat that train by rewards are refused by their kind", "[interop]") {
  CHECK(contains(refusal_of("run.sh", chat("--num_padding_at_beginning 1")), "rewards"));
  CHECK(contains(refusal_of("run.sh",
                            "deepspeed main.py --actor_model_name_or_path a "
                            "--critic_model_name_or_path b --actor_zero_stage 3 --deepspeed\n"),
                 "rewards"));
  for (const char* program : {"scripts/dpo.py", "grpo.py", "reward_modeling.py", "run_orpo.py"})
    CHECK(contains(refusal_of("run.sh", "accelerate launch " + std::string(program) +
                                            " --model_name_or_path gpt2 --output_dir out\n"),
                   "rewards"));
  CHECK_FALSE(contains(refusal_of("run.sh",
                                  "accelerate launch deepspeed_with_config_support.py "
                                  "--model_name_or_path gpt2 --output_dir out\n"),
                       "rewards"));
  CHECK(contains(refusal_of("run.sh", "accelerate launch train_dreambooth.py --output_dir out\n"),
                 "diffusion"));
}

TEST_CASE("what a program of one's own leaves open is asked for in one message", "[interop]") {
  const std::string own = refusal_of("run.sh", "deepspeed --num_gpus 2 train.py --fast\n");
  for (const char* answer :
       {"--set model=", "--set training.global_batch=", "--set training.sequence_length=",
        "--set parallelism.zero_stage=", "--set training.precision="})
    CHECK(contains(own, answer));
  std::vector<std::string> answers = small;
  answers.insert(answers.end(), {"training.global_batch=16", "parallelism.zero_stage=2",
                                 "training.precision=bf16"});
  const json job = imported_of("run.sh", "deepspeed --num_gpus 2 train.py --fast\n", answers).job;
  CHECK(job["parallelism"]["zero_stage"] == 2);
  CHECK(job["parallelism"]["reduce_gradients"] == "each");
  CHECK(job["cluster"]["processes_per_host"] == 2);

  const std::string bare = refusal_of("run.sh", "accelerate launch --num_processes 4 nlp.py\n");
  CHECK(contains(bare, "--set model="));
  CHECK_FALSE(contains(bare, "zero_stage"));  // accelerate's plan is DDP
}

TEST_CASE("variables of a script are asked for together", "[interop]") {
  const std::string message = refusal_of(
      "run.sh",
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers $LAYERS --hidden-size $WIDTH "
      "--num-attention-heads 16 --seq-length $3 --max-position-embeddings $3 "
      "--micro-batch-size 1 --global-batch-size $BATCH --bf16 --vocab-size 50257\n");
  for (const char* answer :
       {"--define LAYERS=", "--define WIDTH=", "--define 3=", "--define BATCH="})
    CHECK(contains(message, answer));
  CHECK_FALSE(contains(message, "--set training.global_batch"));  // BATCH says it
}

TEST_CASE("words of a template of DeepSpeed's are variables", "[interop]") {
  const std::string file =
      "{\"train_batch_size\": CONFIG_GBSIZE, \"steps_per_print\": LOG_INTERVAL,\n"
      "\"zero_optimization\": {\"stage\": ZERO_STAGE}, \"bf16\": {\"enabled\": Use_BF16},\n"
      "\"train_micro_batch_size_per_gpu\": 2}\n";
  const std::string message = refusal_of("ds.json", file, small);
  for (const char* answer :
       {"--define CONFIG_GBSIZE=", "--define ZERO_STAGE=", "--define Use_BF16="})
    CHECK(contains(message, answer));
  CHECK_FALSE(contains(message, "LOG_INTERVAL"));
  const json job = imported_of("ds.json", file, small, {},
                               {{"CONFIG_GBSIZE", "64"}, {"ZERO_STAGE", "1"}, {"Use_BF16", "true"}})
                       .job;
  CHECK(job["training"]["global_batch"] == 64);
  CHECK(job["training"]["precision"] == "bf16");
  CHECK(job["parallelism"]["zero_stage"] == 1);
  CHECK(contains(refusal_of("ds.json", "{\"train_batch_size\": True}"), "invalid literal"));
}

TEST_CASE("what DeepSpeed's file leaves to the program is asked for", "[interop]") {
  const std::string message =
      refusal_of("ds.json",
                 R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
          "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}})",
                 small);
  for (const char* key : {"training.precision", "training.micro_batch", "training.global_batch"})
    CHECK(contains(message, "--set " + std::string(key) + "="));
}

TEST_CASE("batches of DeepSpeed's say how many processes there are", "[interop]") {
  const auto sizes = [](const std::string& batches) {
    const json cluster =
        imported_of("ds.json", "{" + batches + ", \"zero_optimization\": {\"stage\": 1}}", small)
            .job["cluster"];
    return std::pair(cluster.value("count", 0), cluster.value("processes_per_host", 0));
  };
  const std::string micro = "\"train_micro_batch_size_per_gpu\": ", all = "\"train_batch_size\": ",
                    rounds = "\"gradient_accumulation_steps\": ";
  CHECK(sizes(all + "6, " + micro + "1, " + rounds + "1") == std::pair(0, 6));
  CHECK(sizes(all + "64, " + micro + "2, " + rounds + "2") == std::pair(2, 0));  // 16 processes
  CHECK(sizes(all + "32, " + micro + "2, " + rounds + "2") == std::pair(0, 0));  // one whole host
  CHECK(sizes(all + "16, " + micro + "16") == std::pair(0, 1));
  CHECK(sizes(all + "24, " + micro + "2") == std::pair(0, 6));  // 12 micro-batches over 6
  CHECK(sizes(all + "64, " + micro + "2") == std::pair(0, 0));  // 4 rounds of 8
}

TEST_CASE("the batch of DeepSpeed's file counts where a script has one of its own", "[interop]") {
  const Imported imported = imported_of(
      "run.sh",
      "deepspeed --num_nodes 2 --num_gpus 8 train.py --train_batch_size 2 "
      "--gradient_accumulation_steps 7 --deepspeed --deepspeed_config ds.json\n",
      small, {{"ds.json", R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 1,
                       "fp16": {"enabled": true}})"}});
  CHECK(imported.job["training"]["global_batch"] == 32);
  CHECK(imported.job["training"]["micro_batch"] == 1);
  CHECK(says(imported, "--train-batch-size"));
}

TEST_CASE("the Trainer's batch is 8 where no argument says it", "[interop]") {
  const Imported imported =
      imported_of("run.sh",
                  "accelerate launch --num_processes 4 sft.py --model_name_or_path "
                  "gpt2 --max_length 512 --output_dir out --bf16\n");
  const json& job = imported.job;
  CHECK(job["training"]["micro_batch"] == 8);
  CHECK(job["training"]["global_batch"] == 32);
  CHECK(says(imported, "gradient_checkpointing is not said"));
}

TEST_CASE("programs that evaluate are refused by their kind", "[interop]") {
  const std::string message =
      refusal_of("run.sh", "deepspeed tasks/eval_harness/evaluate.py --num-layers 2\n");
  CHECK(contains(message, "run.sh:1"));
  CHECK(contains(message, "nothing that trains"));
  CHECK(contains(refusal_of("run.yaml",
                            "model_name_or_path: gpt2\ndo_predict: true\n"
                            "stage: sft\noutput_dir: out\n"),
                 "do_predict"));
  // One that trains is read although the other comes first.
  CHECK(contains(
      refusal_of("run.sh", "python evaluate.py --task a\naccelerate launch train.py --lr 1e-4\n"),
      "--set model="));
}

TEST_CASE("comments between arguments are none, and a file in a variable is asked for",
          "[interop]") {
  const json job =
      imported_of("run.sh",
                  "accelerate launch --num_processes 2 sft.py \\\n"
                  "  --model_name_or_path gpt2 --max_length 512 `# tokens` \\\n"
                  "  --output_dir out --per_device_train_batch_size 4 `# each` --bf16\n")
          .job;
  CHECK(job["training"]["micro_batch"] == 4);
  CHECK(contains(refusal_of("run.sh", "deepspeed t.py --output_dir out --deepspeed $DS_CONFIG\n"),
                 "--define DS_CONFIG=FILE"));
}

TEST_CASE("adapters of scripts are not lost", "[interop]") {
  const auto run = [](const std::string& program, const std::string& more) {
    return imported_of("run.sh", "torchrun --nproc_per_node 8 " + program +
                                     " --model_name_or_path meta-llama/Llama-2-7b-hf "
                                     "--output_dir out --bf16 True --model_max_length 512 "
                                     "--per_device_train_batch_size 2 " +
                                     more + "\n");
  };
  const json lora =
      run("train.py", "--lora_enable True --lora_r 128 --lora_alpha 256").job["training"]["lora"];
  CHECK(lora["rank"] == 128);
  CHECK(lora["alpha"] == 256.0);
  const Imported own = run("run_clm.py", "--lora_rank 64 --trainable q_proj,v_proj");
  CHECK(own.job["training"]["lora"]["rank"] == 64);
  CHECK(own.job["training"]["lora"]["target_modules"] == json{"q_proj", "v_proj"});
  CHECK(says(own, "no setting turns adapters on"));
  CHECK(run("train_lora.py", "--lora_r 8").job["training"]["lora"]["rank"] == 8);
  CHECK(run("sft.py", "--use_peft True --lora_rank 16 --target_modules all")
            .job["training"]["lora"]["rank"] == 16);
  const Imported off = run("sft.py", "--lora_r 8");  // trl's switch is --use_peft
  CHECK_FALSE(off.job["training"].contains("lora"));
  CHECK(says(off, "all weights are trained"));
  CHECK(says(run("train.py", "--vision_tower clip"), "vision tower is left out"));
  CHECK(contains(refusal_of("run.sh",
                            "deepspeed train.py --model_name_or_path gpt2 --output_dir o "
                            "--tune_mm_mlp_adapter True\n"),
                 "projector"));
}

TEST_CASE("options of one letter end the values of the option before", "[interop]") {
  const Imported imported =
      imported_of("run.sh",
                  "deepspeed --num_gpus 2 run.py --model_name_or_path gpt2 "
                  "--max_length 512 --output_dir out --bf16 -b 4 --deepspeed ds.json\n",
                  {}, {{"ds.json", R"({"zero_optimization": {"stage": 1}})"}});
  CHECK(imported.job["parallelism"]["zero_stage"] == 1);
  CHECK(imported.job["training"]["precision"] == "bf16");
  CHECK(says(imported, "-b 4"));
}

TEST_CASE("tasks of Megatron-DeepSpeed tune a BERT", "[interop]") {
  const auto script = [](const std::string& task) {
    return "deepspeed --num_gpus 4 tasks/main.py --finetune --task " + task +
           " --train-data a --valid-data b --epochs 3 --tokenizer-type BertWordPieceLowerCase "
           "--pretrained-checkpoint c --num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
           "--seq-length 128 --max-position-embeddings 512 --micro-batch-size 8 "
           "--global-batch-size 64 --lr 5e-5 --lr-warmup-fraction 0.1 --fp16\n";
  };
  const std::vector<std::string> vocabulary = {"model.vocab_size=30522"};
  const json job = imported_of("run.sh", script("MNLI"), vocabulary).job;
  CHECK(job["model"]["model_type"] == "bert");
  CHECK(job["training"]["global_batch"] == 64);
  const Imported race = imported_of("run.sh", script("RACE"), vocabulary);
  CHECK(race.job["training"]["micro_batch"] == 32);  // four answers to each question
  CHECK(race.job["training"]["global_batch"] == 256);
  CHECK(says(race, "four sequences"));
  CHECK(contains(refusal_of("run.sh", script("LAMBADA"), vocabulary), "trains nothing"));
}

TEST_CASE("a model without experts has no degree of experts' tensors", "[interop]") {
  const json job =
      imported_of("run.sh",
                  "deepspeed --num_gpus 8 pretrain_gpt.py --num-experts 1 --num-layers 24 "
                  "--hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
                  "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 64 "
                  "--bf16 --vocab-size 50257 --tensor-model-parallel-size 4 --deepspeed "
                  "--zero-stage 1\n")
          .job;
  CHECK(job["parallelism"]["tensor"] == 4);
  CHECK_FALSE(job["parallelism"].contains("expert_tensor"));
}

TEST_CASE("LLaMA-Factory on Megatron-Core has the Trainer's batches and Megatron's degrees",
          "[interop]") {
  const std::string file =
      "model_name_or_path: meta-llama/Llama-3.2-1B-Instruct\nstage: sft\ndo_train: true\n"
      "dataset: alpaca\ntemplate: llama3\ncutoff_len: 2048\noutput_dir: out\n"
      "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nlearning_rate: 3.0e-6\n"
      "lr_scheduler_type: constant\nbf16: true\ntensor_model_parallel_size: 2\n"
      "pipeline_model_parallel_size: 2\nsequence_parallel: true\n"
      "use_distributed_optimizer: true\noverlap_grad_reduce: false\n";
  const json job = imported_of("run.yaml", file + "finetuning_type: full\n").job;
  CHECK(job["model"] == "llama-3.2-1b");
  CHECK(job["parallelism"]["tensor"] == 2);
  CHECK(job["parallelism"]["pipeline"] == 2);
  CHECK(job["parallelism"]["sequence_parallel"] == true);
  CHECK(job["parallelism"]["zero_stage"] == 1);
  CHECK(job["training"]["micro_batch"] == 2);
  CHECK(job["training"]["global_batch"] == 2 * 4 * 2);  // two replicas on a host of eight
  CHECK(job["training"]["sequence_length"] == 2048);
  CHECK(job["training"]["weight_decay"] == 0);
  CHECK(job["training"]["precision"] == "bf16");
  const json lora = imported_of("run.yaml", file + "finetuning_type: lora\nlora_rank: 16\n")
                        .job["training"]["lora"];
  CHECK(lora["rank"] == 16);
  CHECK(lora["alpha"] == 32.0);
  CHECK(contains(refusal_of("run.yaml", file + "finetuning_type: freeze\n"), "finetuning_type"));
}

TEST_CASE("LLaMA-Factory trains adapters unless it is told otherwise", "[interop]") {
  const Imported imported =
      imported_of("run.yaml",
                  "model_name_or_path: gpt2\nstage: sft\ntemplate: default\ncutoff_len: 512\n"
                  "output_dir: out\nper_device_train_batch_size: 1\nbf16: true\n");
  CHECK(imported.job["training"]["lora"]["rank"] == 8);
  CHECK(says(imported, "default"));
}

TEST_CASE("LLaMA-Factory's fp8 is the precision, not bf16 beside it", "[interop]") {
  const std::string file =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: sft\n"
      "finetuning_type: full\ncutoff_len: 1024\noutput_dir: out\nbf16: true\nfp8: true\n"
      "fp8_backend: torchao\nper_device_train_batch_size: 1\n";
  const json sharded = imported_of("run.yaml", file +
                                                   "fsdp: [full_shard, auto_wrap]\n"
                                                   "fp8_enable_fsdp_float8_all_gather: true\n")
                           .job["training"];
  CHECK(sharded["precision"] == "fp8");
  CHECK(sharded["fp8_recipe"] == "tensorwise");
  CHECK(sharded["fp8_gathers"] == true);
  const json zero = imported_of("run.yaml", file + "deepspeed: ds.json\n", {},
                                {{"ds.json", R"({"train_micro_batch_size_per_gpu": "auto",
                                                 "bf16": {"enabled": "auto"},
                                                 "zero_optimization": {"stage": 3}})"}})
                        .job["training"];
  CHECK(zero["precision"] == "fp8");
  CHECK(zero["gradient_reduce_precision"] == "bf16");
}
