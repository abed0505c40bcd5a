// Tests the scripts that start a run, word for word and as a shell reads them.
#include <cstdlib>
#include <fstream>

#include "models/core/error.h"
#include "models/core/quote.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"
#include "tools/interop/launch/launch.h"

using namespace meshwright::tests;

namespace {

Launch two_hosts() {
  Launch launch;
  launch.name = "My job_7";
  launch.machine = "p4d.24xlarge";
  launch.hosts = 2;
  launch.gpus_per_host = 8;
  launch.words = {
      "train.py", "--lr", "0.1", "--note", "it's $HOME", "--root", LaunchWord::expression("$PWD")};
  launch.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  return launch;
}

Launch with_starter(std::vector<std::string> starter) {
  Launch launch = two_hosts();
  launch.starter = std::move(starter);
  return launch;
}

std::string text_of(std::string_view launcher, const Launch& launch, std::size_t file = 0) {
  return launch_files(launcher, launch).at(file).text;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a Slurm script starts torchrun once on every host", "[interop]") {
  CHECK(text_of("slurm", two_hosts()) ==
        "#!/bin/bash\n"
        "#SBATCH --job-name=my-job-7\n"
        "#SBATCH --nodes=2\n"
        "#SBATCH --gpus-per-node=8\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --exclusive\n"
        "set -euo pipefail\n"
        "\n"
        "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
        "export FI_EFA_USE_DEVICE_RDMA=1\n"
        "export FI_PROVIDER=efa\n"
        "export RDMAV_FORK_SAFE=1\n"
        "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n"
        "export MASTER_ADDR\n"
        "export MASTER_PORT=${MASTER_PORT:-29500}\n"
        "\n"
        "srun \\\n"
        "  --export=ALL \\\n"
        "  --kill-on-bad-exit=1 \\\n"
        "  torchrun \\\n"
        "  --nnodes 2 \\\n"
        "  --nproc-per-node 8 \\\n"
        "  --rdzv-id \"$SLURM_JOB_ID\" \\\n"
        "  --rdzv-backend c10d \\\n"
        "  --rdzv-endpoint \"$MASTER_ADDR:$MASTER_PORT\" \\\n"
        "  train.py \\\n"
        "  --lr 0.1 \\\n"
        "  --note 'it'\\''s $HOME' \\\n"
        "  --root \"$PWD\"\n");
}

TEST_CASE("torchrun by hand meets at an endpoint that the environment names", "[interop]") {
  const std::string text = text_of("torchrun", two_hosts());
  CHECK(has(text,
            ": \"${RDZV_ENDPOINT:?is not set; give HOST:29500 of one of the hosts, the same "
            "on all}\"\n"));
  CHECK(has(text, "--rdzv-endpoint \"$RDZV_ENDPOINT\""));
  Launch alone = two_hosts();
  alone.hosts = 1;
  const std::string single = text_of("torchrun", alone);
  CHECK(has(single, "--standalone"));
  CHECK_FALSE(has(single, "RDZV_ENDPOINT"));
  CHECK_FALSE(has(single, "FI_PROVIDER"));  // nothing leaves the host
}

TEST_CASE("mpirun's ranks become torch's", "[interop]") {
  const std::string text = text_of("mpirun", two_hosts());
  CHECK(has(text, "mpirun -np 16 \\\n  --hostfile \"$HOSTFILE\" \\\n  --map-by ppr:8:node"));
  CHECK(has(text, "-x CUDA_DEVICE_MAX_CONNECTIONS -x FI_EFA_USE_DEVICE_RDMA"));
  CHECK(has(text, "'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE"));
}

TEST_CASE("launchers of frameworks are told the hosts in their own words", "[interop]") {
  const Launch accelerate = with_starter({"accelerate", "launch", "--config_file", "a b.yaml"});
  const std::string slurm = text_of("slurm", accelerate);
  CHECK(has(slurm, "'exec accelerate launch --config_file '\\''a b.yaml'\\'' --num_machines 2"));
  CHECK(has(slurm,
            "--num_machines 2 --num_processes 16 --machine_rank \"$SLURM_NODEID\" "
            "--main_process_ip \"$MASTER_ADDR\" --main_process_port \"$MASTER_PORT\""));
  const std::string by_hand = text_of("torchrun", accelerate);
  CHECK(has(by_hand, ": \"${NODE_RANK:?"));
  const std::string deepspeed = text_of("torchrun", with_starter({"deepspeed"}));
  CHECK(has(deepspeed, "--hostfile hostfile"));
  CHECK(has(deepspeed, "--no_ssh"));
  CHECK(has(deepspeed, "seq -f 'host%g' 2 | sed 's/$/ slots=8/' > hostfile\n"));
}

TEST_CASE("Kubernetes' objects ask for GPUs, network cards and the machine", "[interop]") {
  const std::string job = text_of("kubernetes", two_hosts());
  CHECK(has(job, "kind: TrainJob\nmetadata:\n  name: my-job-7\n"));
  CHECK(has(job, "nvidia.com/gpu: \"8\"\n        vpc.amazonaws.com/efa: \"4\"\n"));
  CHECK(has(job, "node.kubernetes.io/instance-type: p4d.24xlarge"));
  const std::string old = text_of("kubernetes", two_hosts(), 1);
  CHECK(has(old, "kind: PyTorchJob\n"));
  CHECK(has(old, "    Worker:\n      replicas: 1\n"));
  Launch elsewhere = two_hosts();
  elsewhere.machine = "dgx-h100";
  CHECK_FALSE(has(text_of("kubernetes", elsewhere), "instance-type"));
  CHECK_FALSE(has(text_of("kubernetes", elsewhere), "efa"));
}

TEST_CASE("bash reads every script", "[interop]") {
  const TestFolder folder;
  const std::string launcher = GENERATE("slurm", "torchrun", "mpirun");
  for (const Launch& launch :
       {two_hosts(), with_starter({"accelerate", "launch", "--config_file", "it's a.yaml"}),
        with_starter({"deepspeed"})}) {
    const std::string file = folder.path() + "/run.sh";
    std::ofstream(file) << text_of(launcher, launch);
    CAPTURE(text_of(launcher, launch));
    CHECK(std::system(("bash -n '" + file + "'").c_str()) == 0);
  }
}

TEST_CASE("a launcher that is not known names the others; a service needs none", "[interop]") {
  CHECK(message_of([] { launch_files("pbs", two_hosts()); }) ==
        "unknown launcher 'pbs'; known: slurm, torchrun, mpirun and kubernetes");
  Launch service = two_hosts();
  service.words.clear();
  CHECK(launch_files("slurm", service).empty());
}

TEST_CASE("words are quoted where a shell would read them otherwise", "[interop]") {
  CHECK(shell_word("a-b_c=1,2") == "a-b_c=1,2");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("it's $x") == "'it'\\''s $x'");
}
