// Tests how many hosts and processes the options of programs that start ranks give.
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tools/interop/import.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

constexpr const char* gpt_arguments =
    " --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 512 --bf16 "
    "--vocab-size 50257\n";

Imported imported_of(const std::string& script, const std::string& name = "run.sh",
                     const std::map<std::string, std::string>& others = {}) {
  const TestFolder folder;
  for (const auto& [other, text] : others) folder.file(other, text);
  ImportOptions options;
  options.overrides = {"cluster.machine=dgx-a100-80gb"};
  return import_settings({folder.file(name, script)}, options, machine_facts);
}

// Returns "HOSTS x PROCESSES", in which "?" stands for a number that the script does not set.
std::string sizes_of(const std::string& script,
                     const std::map<std::string, std::string>& others = {}) {
  try {
    const json job = imported_of(script, "run.sh", others).job;
    const json sizes = job.value("cluster", json::object());
    const auto text = [&](const char* key) {
      return sizes.contains(key) ? sizes[key].dump() : std::string("?");
    };
    return text("count") + " x " + text("processes_per_host");
  } catch (const InputError& error) {
    return error.what();
  }
}

std::string started(const std::string& by, const std::string& before = "") {
  return sizes_of("#!/bin/bash\n" + before + by + " pretrain_gpt.py" + gpt_arguments);
}

}  // namespace

TEST_CASE("options of starters say the size of the cluster", "[interop]") {
  CHECK(started("torchrun --nnodes 2 --nproc_per_node 8") == "2 x 8");
  CHECK(started("torchrun --nnodes=2 --nproc-per-node=4") == "2 x 4");
  CHECK(started("torchrun --standalone") == "? x 1");
  CHECK(started("torchrun --nproc_per_node gpu") == "? x ?");
  CHECK(started("python -m torch.distributed.launch --nproc_per_node 1 --nnodes 2") == "2 x 1");
  CHECK(started("python3 -u -m torch.distributed.run --nproc_per_node 8 --nnodes 4") == "4 x 8");
  CHECK(started("mpirun -np 16 -npernode 8 python") == "2 x 8");
  CHECK(started("mpirun -n 8 python") == "1 x 8");
  CHECK(started("mpirun -n 4 python") == "1 x 4");
  CHECK(started("mpirun -np 32 python") == "4 x 8");
  CHECK(started("mpirun --allow-run-as-root -np 16 --map-by ppr:4:node -x PATH python") == "4 x 4");
  CHECK(started("mpirun -np 8 -H a:4,b:4 python") == "2 x 4");
  CHECK(started("mpiexec -n 16 -ppn 8 python") == "2 x 8");
  CHECK(started("srun -N 2 --ntasks-per-node 8 python") == "2 x 8");
  CHECK(started("srun -N2 -n16 python") == "2 x 8");
  CHECK(started("srun --nodes=4 --gpus-per-node=a100:8 --ntasks-per-node=1 torchrun "
                "--nproc_per_node 8 --nnodes 4") == "4 x 8");
  CHECK(started("srun python", "#SBATCH --nodes=2\n#SBATCH --gres=gpu:a100:4\n") == "2 x 4");
  CHECK(started("srun python", "#SBATCH -N 2 -G 16\n") == "2 x 8");
  CHECK(started("srun python", "##SBATCH --nodes=4\n#SBATCH -N 2\n#SBATCH --ntasks=8\n") ==
        "2 x 4");
  CHECK(started("mpirun -np 8 python", "#PBS -l select=2:ngpus=4\n") == "2 x 4");
  CHECK(started("srun torchrun --nproc_per_node $SLURM_GPUS_PER_NODE --nnodes $SLURM_NNODES",
                "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n") == "2 x 4");
  CHECK(started("deepspeed --num_gpus 4") == "? x 4");
  CHECK(started("deepspeed --num_gpus=4 --num_nodes=2") == "2 x 4");
  CHECK(started("deepspeed --include localhost:0,1,2,3") == "1 x 4");
  CHECK(started("deepspeed --include=\"a:0,1@b:0,1\"") == "2 x 2");
  CHECK(started("accelerate launch --num_processes 16 --num_machines 2") == "2 x 8");
  CHECK(started("aprun -n 16 -N 8 python") == "2 x 8");
  CHECK(started("jsrun -n 16 -r 8 python") == "2 x 8");
  CHECK(started("nohup env A=1 numactl -m 0 torchrun --nproc_per_node 8 --nnodes 2") == "2 x 8");
  CHECK(started("NCCL_DEBUG=INFO torchrun --nproc_per_node 8 --nnodes 2") == "2 x 8");
}

TEST_CASE("a list of hosts beside a script is read", "[interop]") {
  const std::string script =
      "deepspeed --hostfile hosts pretrain_gpt.py" + std::string(gpt_arguments);
  CHECK(sizes_of(script, {{"hosts", "a slots=4\nb slots=4\n# c slots=4\n"}}) == "2 x 4");
}

TEST_CASE("a number of hosts that only the shell knows is asked for", "[interop]") {
  const std::string problem = started("torchrun --nproc_per_node 8 --nnodes $WORLD_SIZE");
  CHECK(problem.find("cluster.count (torchrun --nnodes $WORLD_SIZE); give it with --set "
                     "cluster.count=NUMBER") != std::string::npos);
  CHECK(started("torchrun --nproc_per_node 8 --nnodes 1:4").find("a range") != std::string::npos);
  CHECK(started("mpirun -np 12 python").find("no multiple of the 8 GPUs") != std::string::npos);
}

TEST_CASE("commands inside of commands are read", "[interop]") {
  const std::string command =
      "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py" + std::string(gpt_arguments);
  std::string plain = command;
  plain.pop_back();
  CHECK(sizes_of("bash -c \"" + plain + "\"\n") == "2 x 8");
  CHECK(sizes_of("ssh host 'cd /x && " + plain + "'\n") == "2 x 8");
  CHECK(sizes_of("sbatch -N 4 <<'EOF'\n#!/bin/bash\nsrun torchrun --nproc_per_node 8 --nnodes "
                 "$SLURM_NNODES pretrain_gpt.py" +
                 std::string(gpt_arguments) + "EOF\n") == "4 x 8");
  CHECK(sizes_of("sbatch --nodes=2 job.sh 8\n",
                 {{"job.sh",
                   "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $1 "
                   "pretrain_gpt.py" +
                       std::string(gpt_arguments)}}) == "2 x 8");
  CHECK(sizes_of("run() {\n  torchrun --nnodes $1 --nproc_per_node 8 \"${@:2}\"\n}\nrun 2 "
                 "pretrain_gpt.py" +
                 std::string(gpt_arguments)) == "2 x 8");
  CHECK(sizes_of("source sizes.sh\ntorchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py" +
                     std::string(gpt_arguments),
                 {{"sizes.sh", "N=2\n"}}) == "2 x 8");
  CHECK(sizes_of("CMD=\"" + plain + " 2>&1 | tee log\"\necho $CMD\neval $CMD\n") == "2 x 8");
}

TEST_CASE("branches that nothing decides are said", "[interop]") {
  const std::string end =
      "torchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py" + std::string(gpt_arguments);
  const Imported one = imported_of("N=1\nif [ -n \"$BIG\" ]; then\n  N=2\nfi\n" + end);
  CHECK(one.job["cluster"]["count"] == 1);
  REQUIRE(one.remarks.size() == 1);
  CHECK(one.remarks[0].find("$BIG is not given and taken as empty; --define BIG=VALUE") !=
        std::string::npos);
  // If an uncertain variable is not used by the command, there is no note.
  CHECK(imported_of("N=1\nif [ -n \"$BIG\" ]; then\n  M=2\nfi\n" + end).remarks.empty());
  CHECK(imported_of("N=1\nwhile [[ $# -gt 0 ]]; do\n  case $1 in\n    -n) N=$2; shift ;;\n  esac\n"
                    "  shift\ndone\n" +
                    end)
            .job["cluster"]["count"] == 1);
  const Imported loop = imported_of("for N in 2 4; do\n" + end + "done\n");
  CHECK(loop.job["cluster"]["count"] == 2);
  REQUIRE(loop.remarks.size() == 1);
  CHECK(loop.remarks[0].find("the first round is read, with 2") != std::string::npos);
  CHECK(imported_of("N=3\n[ -f /no/such ] && N=2\n" + end).remarks.size() == 1);
  // A script that ends if its arguments are missing is read as if it had them.
  CHECK(imported_of("if [ $# -lt 1 ]; then echo usage; exit 1; fi\nN=2\n" + end)
            .job["cluster"]["count"] == 2);
}

TEST_CASE("what expands to nothing is no argument, and an unknown command is one", "[interop]") {
  const std::string start = "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py";
  std::string arguments = gpt_arguments;
  while (arguments.ends_with('\n')) arguments.pop_back();
  const json plain = imported_of(start + arguments + "\n").job;
  for (const char* nothing : {"\"$@\"", "$@", "\"${@}\"", "${NONE[@]}"}) {
    INFO(nothing);
    CHECK(imported_of("NONE=()\n" + start + arguments + " " + nothing + "\n").job == plain);
  }
  // Blanks inside a command substitution, which is never run, do not separate arguments of the
  // training.
  const std::string log = "LOG=\"/logs/gpus-$(nvidia-smi --query-gpu=name | wc -l)-$((2 + 2))\"\n";
  CHECK(imported_of(log + "ALL=\"" + arguments + " --tensorboard-dir $LOG\"\n" + start + " $ALL\n")
            .job == plain);
}

TEST_CASE("shells know an argument of place 00, and [[ takes an empty operand as 0", "[interop]") {
  const std::string end = " torchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py";
  CHECK(imported_of("NAME=${00}\nN=2\n" + end.substr(1) + gpt_arguments).job["cluster"]["count"] ==
        2);
  CHECK(imported_of("EMPTY=\nN=3\nif [[ $EMPTY -lt 3 ]]; then N=2; fi\n" + end.substr(1) +
                    gpt_arguments)
            .job["cluster"]["count"] == 2);
}

TEST_CASE("a variable without a value is asked for in arithmetic, too", "[interop]") {
  const std::string start = "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py";
  std::string arguments = gpt_arguments;
  const std::string micro = "--micro-batch-size 1";
  arguments.replace(arguments.find(micro), micro.size(),
                    "--micro-batch-size $(( ${BATCH} / ${REPLICAS} ))");
  const std::string script = "BATCH=32\nREPLICAS=$(count_replicas)\n" + start + arguments;
  try {
    (void)imported_of(script);
    FAIL("the file does not say how many replicas there are");
  } catch (const InputError& error) {
    const std::string message = error.what();
    INFO(message);
    CHECK(message.find("--define REPLICAS=VALUE") != std::string::npos);
    CHECK(message.find("--define BATCH") == std::string::npos);
  }
}

TEST_CASE("degrees that need more hosts than a file has say how many", "[interop]") {
  const std::string start =
      "torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 "
      "--pipeline-model-parallel-size 4";
  try {
    (void)imported_of(start + gpt_arguments);
    FAIL("32 ranks are more than 8");
  } catch (const InputError& error) {
    const std::string message = error.what();
    INFO(message);
    CHECK(message.ends_with("--set cluster.count=4"));
  }
}

// axolotl's files often contain all settings of adapters, most of them switched off.
TEST_CASE("adapters that are off are no adapters", "[interop]") {
  const auto imported = [](const std::string& more) {
    return imported_of(
        "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 2048\n"
        "micro_batch_size: 1\ngradient_accumulation_steps: 1\nbf16: auto\n" +
            more,
        "axolotl.yaml");
  };
  for (const char* off : {"false", "null", "", "none"}) {
    INFO(off);
    const std::string word = off;
    CHECK_NOTHROW(imported("load_in_8bit: " + word + "\nload_in_4bit: " + word +
                           "\nadapter: " + word + "\n"));
  }
  CHECK_THROWS_AS(imported("load_in_8bit: false\nload_in_4bit: true\n"), InputError);
  CHECK_THROWS_AS(imported("adapter: qlora\n"), InputError);
}

TEST_CASE("QLoRA of axolotl, LLaMA-Factory and trl is an adapter of weights in 4 bits",
          "[interop]") {
  const auto lora_of = [](const std::string& text, const std::string& file) {
    return imported_of(text, file).job["training"]["lora"];
  };
  const std::string axolotl =
      "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 2048\nmicro_batch_size: 1\n"
      "gradient_accumulation_steps: 1\nbf16: auto\nadapter: qlora\nload_in_4bit: true\n"
      "lora_r: 32\nlora_alpha: 16\nlora_target_linear: true\n";
  const json by_axolotl = lora_of(axolotl, "axolotl.yaml");
  CHECK(by_axolotl["rank"] == 32);
  CHECK(by_axolotl["base_weights"] == "nf4");
  CHECK(by_axolotl["double_quantization"] == true);
  const json plain =
      lora_of(axolotl + "bnb_config_kwargs:\n  bnb_4bit_use_double_quant: false\n", "axolotl.yaml");
  CHECK(plain["base_weights"] == "nf4");
  CHECK_FALSE(plain.contains("double_quantization"));
  CHECK_THROWS_AS(
      lora_of(axolotl + "bnb_config_kwargs:\n  bnb_4bit_quant_type: fp4\n", "axolotl.yaml"),
      InputError);

  const std::string factory =
      "model_name_or_path: NousResearch/Llama-2-7b-hf\nstage: sft\ndo_train: true\n"
      "finetuning_type: lora\nlora_rank: 8\nlora_target: all\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: true\n"
      "output_dir: out\n";
  const auto by_factory = [&](const std::string& more) {
    return lora_of(factory + more, "sft.yaml");
  };
  CHECK_FALSE(by_factory("").contains("base_weights"));
  CHECK(by_factory("quantization_bit: 4\n")["base_weights"] == "nf4");
  CHECK(by_factory("quantization_bit: 4\n")["double_quantization"] == true);
  CHECK_FALSE(by_factory("quantization_bit: 4\nquantization_method: bnb\n"
                         "double_quantization: false\n")
                  .contains("double_quantization"));
  CHECK_THROWS_AS(by_factory("quantization_bit: 4\nquantization_method: hqq\n"), InputError);
  CHECK_THROWS_AS(by_factory("quantization_bit: 4\nquantization_type: fp4\n"), InputError);

  const auto by_trl = [](const std::string& more) {
    return imported_of(
               "accelerate launch --num_processes 2 --mixed_precision bf16 --use_fsdp sft.py "
               "--model_name_or_path NousResearch/Llama-2-7b-hf --max_length 2048 --bf16 "
               "--per_device_train_batch_size 1 --use_peft --output_dir out --lora_r 16 " +
                   more + "\n",
               "sft.sh")
        .job["training"]["lora"];
  };
  CHECK_FALSE(by_trl("").contains("base_weights"));
  CHECK(by_trl("--load_in_4bit")["base_weights"] == "nf4");
  CHECK_FALSE(by_trl("--load_in_4bit").contains("double_quantization"));
  CHECK(by_trl("--load_in_4bit --use_bnb_nested_quant")["double_quantization"] == true);
}
