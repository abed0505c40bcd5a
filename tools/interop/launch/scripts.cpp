// Writes the scripts for Slurm, for torchrun started by hand, and for Open MPI.
#include "models/core/quote.h"
#include "tools/interop/launch/parts.h"

namespace meshwright::interop {

namespace {

constexpr const char* port = "29500";  // torch.distributed's default

std::string head_of_script(const Launch& launch, const std::string& more) {
  return "#!/bin/bash\n" + more + "set -euo pipefail\n\n" + exports(environment_of(launch));
}

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// Returns the words that start the program through a shell on each host, because the expressions of
// `place` must be evaluated there and not by the script.
Words in_shell_of_host(const Launch& launch, const HostExpressions& place) {
  std::string inner = "exec";
  for (const std::string& word : start_on_host(launch, place)) inner += " " + word;
  return {"bash", "-c", shell_word(inner + " \"$@\""), launch.starter.front()};
}

std::string processes(const Launch& launch) { return std::to_string(launch.gpus_per_host); }

// A line that tells shellcheck that the variables in single quotes are meant to be evaluated later,
// on each host or by each rank.
constexpr const char* own_variables =
    "# shellcheck disable=SC2016  # each host's or rank's own variables\n";

// Returns the line that writes deepspeed's hostfile from the host names that the command `hosts`
// prints. deepspeed only counts hosts with it, since --no_ssh keeps it from connecting to them.
std::string hostfile_lines(const Launch& launch, const std::string& hosts) {
  return hosts + " | sed 's/$/ slots=" + std::to_string(launch.gpus_per_host) + "/' > hostfile\n";
}

bool is_torchrun(const Launch& launch) { return starter_of(launch) == Starter::torchrun; }

}  // namespace

std::string slurm_script(const Launch& launch) {
  const std::string hosts = std::to_string(launch.hosts);
  std::string text = head_of_script(
      launch, "#SBATCH --job-name=" + plain_name(launch.name) + "\n#SBATCH --nodes=" + hosts +
                  "\n#SBATCH --gpus-per-node=" + std::to_string(launch.gpus_per_host) +
                  "\n#SBATCH --ntasks-per-node=1\n#SBATCH --exclusive\n");
  text +=
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n"
      "export MASTER_ADDR\n"
      "export MASTER_PORT=${MASTER_PORT:-" +
      std::string(port) + "}\n";
  if (starter_of(launch) == Starter::deepspeed && launch.hosts > 1)
    text += hostfile_lines(launch, "scontrol show hostnames \"$SLURM_JOB_NODELIST\"");
  Words words = {"srun", "--export=ALL", "--kill-on-bad-exit=1"};
  if (is_torchrun(launch))
    append(words, {"torchrun", "--nnodes", hosts, "--nproc-per-node", processes(launch),
                   "--rdzv-id", "\"$SLURM_JOB_ID\"", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                   "\"$MASTER_ADDR:$MASTER_PORT\""});
  else
    append(words,
           in_shell_of_host(launch, {"\"$SLURM_NODEID\"", "\"$MASTER_ADDR\"", "\"$MASTER_PORT\""}));
  append(words, quoted_words(launch));
  return text + "\n" + (is_torchrun(launch) ? "" : own_variables) + command_text(words);
}

std::string torchrun_script(const Launch& launch) {
  const std::string hosts = std::to_string(launch.hosts);
  const bool alone = launch.hosts == 1;
  std::string text = head_of_script(
      launch, alone ? ""
                    : "# Start it on each of the " + hosts + " hosts, with the same variables" +
                          (is_torchrun(launch) ? ".\n" : " but NODE_RANK.\n"));
  Words words;
  if (is_torchrun(launch)) {
    words = {"torchrun", "--nnodes", hosts, "--nproc-per-node", processes(launch)};
    if (alone) {
      words.push_back("--standalone");
    } else {
      text += ": \"${RDZV_ENDPOINT:?is not set; give HOST:" + std::string(port) +
              " of one of the hosts, the same on all}\"\n";
      append(words, {shell_word("--rdzv-id=" + launch.name), "--rdzv-backend", "c10d",
                     "--rdzv-endpoint", "\"$RDZV_ENDPOINT\""});
    }
  } else {
    if (!alone)
      text +=
          ": \"${MASTER_ADDR:?is not set; give the first host, the same on all}\"\n"
          ": \"${NODE_RANK:?is not set; give 0 on the first host, 1 on the next, ...}\"\n"
          "MASTER_PORT=${MASTER_PORT:-" +
          std::string(port) + "}\n";
    if (starter_of(launch) == Starter::deepspeed && !alone)
      text += hostfile_lines(launch, "seq -f 'host%g' " + hosts);
    words = start_on_host(launch,
                          {alone ? "0" : "\"$NODE_RANK\"", "\"$MASTER_ADDR\"", "\"$MASTER_PORT\""});
  }
  append(words, quoted_words(launch));
  return text + (text.ends_with("\n\n") ? "" : "\n") + command_text(words);
}

std::string mpirun_script(const Launch& launch) {
  const bool by_gpu = is_torchrun(launch);
  const int per_host = by_gpu ? launch.gpus_per_host : 1;
  std::string text = head_of_script(launch, "# Open MPI; HOSTFILE names the hosts, one a line.\n");
  text +=
      ": \"${HOSTFILE:?is not set; give a file with a host a line}\"\n"
      "MASTER_ADDR=${MASTER_ADDR:-$(awk 'NF {print $1; exit}' \"$HOSTFILE\")}\n"
      "MASTER_PORT=${MASTER_PORT:-" +
      std::string(port) + "}\nexport MASTER_ADDR MASTER_PORT\n";
  if (starter_of(launch) == Starter::deepspeed && launch.hosts > 1)
    text += hostfile_lines(launch, "awk 'NF {print $1}' \"$HOSTFILE\"");
  Words words = {
      "mpirun",        "-np",      std::to_string(launch.hosts * per_host),     "--hostfile",
      "\"$HOSTFILE\"", "--map-by", "ppr:" + std::to_string(per_host) + ":node", "--bind-to",
      "none"};
  for (const auto& [name, value] : environment_of(launch)) append(words, {"-x", name});
  append(words, {"-x", "MASTER_ADDR", "-x", "MASTER_PORT", "-x", "PATH"});
  if (by_gpu)  // torch.distributed reads these variables
    append(words, {"bash", "-c",
                   "'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE "
                   "LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK "
                   "LOCAL_WORLD_SIZE=$OMPI_COMM_WORLD_LOCAL_SIZE exec python3 -u \"$@\"'",
                   "python3"});
  else
    append(words, in_shell_of_host(launch, {"\"$OMPI_COMM_WORLD_RANK\"", "\"$MASTER_ADDR\"",
                                            "\"$MASTER_PORT\""}));
  append(words, quoted_words(launch));
  return text + "\n" + own_variables + command_text(words);
}

}  // namespace meshwright::interop
