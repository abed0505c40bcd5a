// What starts a training run on several hosts, for each of the launchers that clusters have.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwright {

// A word of a command. Text is handed over as it is; only what this program itself says may be an
// expression that the host's shell evaluates ("$PWD").
struct LaunchWord {
  std::string text;
  bool is_expression = false;

  LaunchWord(std::string word) : text(std::move(word)) {}  // NOLINT(google-explicit-constructor)
  LaunchWord(const char* word) : text(word) {}             // NOLINT(google-explicit-constructor)
  static LaunchWord expression(const char* word) {
    LaunchWord made(word);
    made.is_expression = true;
    return made;
  }
};

// One run: the same words on every host, where a launcher of the framework's starts one process a
// GPU.
struct Launch {
  std::string name;     // of the run, from the job
  std::string machine;  // as meshwright names it: "p4d.24xlarge"
  int hosts = 1, gpus_per_host = 1;
  // The program and its arguments, without what starts it: {"pretrain_gpt.py", "--bf16", ...} or
  // {"-m", "torchtitan.train", ...}.
  std::vector<LaunchWord> words;
  // Instead of torchrun, which starts `words` elsewhere: {"accelerate", "launch", ...}; the
  // launcher adds --num_machines and the like by itself where it knows them.
  std::vector<std::string> starter;
  std::map<std::string, std::string> environment;
};

struct LaunchFile {
  std::string name;
  std::string text;
  bool is_program = false;
};

// slurm (an sbatch script), torchrun (a script for each host), mpirun, kubernetes (Kubeflow's
// TrainJob and PyTorchJob).
const std::vector<std::string>& launcher_names();
// Unknown: InputError that names the known ones.
std::vector<LaunchFile> launch_files(std::string_view launcher, const Launch& launch);

}  // namespace meshwright
